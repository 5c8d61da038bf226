/**
 * Guesses of a sequence's next tokens that a run has read, together with the tokens before them, until the caller says how
 * many are right. Until then the sequence is unchanged: its states are the old ones, and the new contents of its pages lie
 * after its tokens. Running, forking or disposing the sequence before then leaves the verification.
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
  /** How many certain tokens come before the guesses. */
  readonly certain: number;
  /** How many guesses there are. */
  readonly drafts: number;
  /** Called after work was committed that no run waits for. */
  readonly committed: () => void;
}

export class Verification {
  /** How many tokens the sequence has if none of the guesses is accepted. */
  readonly tokens: number;
  /** How many tokens it had before the run, and has until the verification ends. */
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

  /** How many guesses can be accepted. */
  get drafts(): number {
    return this.#most;
  }

  /** Whether it can still be ended. */
  get open(): boolean {
    const { sequence, draft } = this.#parts;
    return sequence.verification === this && draft.open && !draft.pool.device.closed;
  }

  /** Limits the right guesses to the first `drafts`, and frees the pages of the others. */
  narrow(drafts: number): void {
    const op = "verification.narrow";
    this.#expectOpen(op);
    this.#most = asInteger(op, "drafts", drafts, 0, this.#most);
    this.#cut(op, this.tokens + this.#most);
  }

  /**
   * Ends it, and adds the certain tokens and the first `drafts` guesses to the sequence. Commits work without waiting for it.
   *
   * @throws {GatedDeltaError} if it is over, and the errors of `draft.commit`: the sequence is then as before the run.
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

  /** Ends it if it is open, and leaves the sequence as before the run. Never throws. */
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
    if (!this.open) throw new GatedDeltaError("state", { op, message: "this verification is over, or its sequence" });
  }
}
