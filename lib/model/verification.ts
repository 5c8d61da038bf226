/**
 * Guesses of a sequence's next tokens that a run has read, together with the certain tokens before them, until the caller
 * decides how many to accept. Until then the sequence is unchanged: it has its old states, and the new contents of its pages
 * lie behind its tokens. Running, forking or disposing the sequence abandons the verification.
 */
import { asInteger } from "../arguments/checks.ts";
import { GatedDeltaError } from "../errors.ts";
import type { Draft } from "../states/draft.ts";
import type { SequenceParts } from "./sequence.ts";

/** The data of a verification. */
export interface VerificationParts {
  readonly sequence: SequenceParts;
  /** The draft of the sequence's state over the certain tokens and the guesses. */
  readonly draft: Draft;
  /** Number of certain tokens before the guesses. */
  readonly certain: number;
  /** Number of guesses. */
  readonly drafts: number;
  /** Called after work that no run waits for was committed. */
  readonly committed: () => void;
}

export class Verification {
  /** Number of tokens of the sequence if no guess is accepted. */
  readonly tokens: number;
  /** Number of the sequence's tokens before the run and until the verification ends. */
  readonly had: number;
  readonly #parts: VerificationParts;
  #most: number;

  constructor(parts: VerificationParts, had: number) {
    this.#parts = parts;
    this.#most = parts.drafts;
    this.had = had;
    this.tokens = had + parts.certain;
    parts.sequence.verification = this;
  }

  /** The most guesses that can be accepted. */
  get drafts(): number {
    return this.#most;
  }

  /** Whether the verification can still be decided. */
  get open(): boolean {
    const { sequence, draft } = this.#parts;
    return sequence.verification === this && draft.open && !draft.pool.device.closed;
  }

  /** Limits the guesses to the first `drafts`, and frees the pages of the others. */
  narrow(drafts: number): void {
    const op = "verification.narrow";
    this.#expectOpen(op);
    this.#most = asInteger(op, "drafts", drafts, 0, this.#most);
    this.#cut(op, this.tokens + this.#most);
  }

  /**
   * Adds the certain tokens and the first `drafts` guesses to the sequence. Commits work without waiting for it.
   *
   * @throws {GatedDeltaError} if the verification is over, and the errors of `draft.commit`. The sequence is then as before the run.
   */
  accept(drafts: number): void {
    const op = "verification.accept";
    this.#expectOpen(op);
    const accepted = asInteger(op, "drafts", drafts, 0, this.#most);
    const { sequence, draft, certain, committed } = this.#parts;
    try {
      draft.commit([certain + accepted]);
    } catch (error) {
      this.leave();
      throw error;
    }
    sequence.verification = undefined;
    this.#cut(op, this.tokens + accepted);
    committed();
  }

  /** Undoes the verification if it is open: the sequence is as before the run. Never throws. */
  leave(): void {
    const { sequence, draft } = this.#parts;
    if (sequence.verification !== this) return;
    sequence.verification = undefined;
    this.#cut("verification.leave", this.had);
    draft[Symbol.dispose]();
  }

  #cut(op: string, tokens: number): void {
    const { ledger, list } = this.#parts.sequence;
    ledger.cut(op, list, tokens);
  }

  #expectOpen(op: string): void {
    if (!this.open) throw new GatedDeltaError("state", { op, message: "this verification or its sequence has ended" });
  }
}
