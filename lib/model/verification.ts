/**
 * Guesses of a sequence's next tokens that a run has read with the tokens before them, until it is said how many of them are
 * right. Nothing was added to the sequence before: its states are as they were, and what was written to its pages lies
 * behind its tokens. Leaving is what also happens where the sequence is run, forked or disposed before.
 */
import { asInteger } from "../arguments/checks.ts";
import { GatedDeltaError } from "../errors.ts";
import type { Draft } from "../states/draft.ts";
import type { SequenceParts } from "./sequence.ts";

/** The parts of a verification. */
export interface VerificationParts {
  readonly sequence: SequenceParts;
  /** Of the sequence's state, over the certain tokens and the guesses. */
  readonly draft: Draft;
  /** How many tokens come before the guesses. */
  readonly certain: number;
  /** How many guesses there are. */
  readonly drafts: number;
  /** Called when work was committed that no run waits for. */
  readonly committed: () => void;
}

export class Verification {
  /** How many tokens the sequence has if none of the guesses is accepted. */
  readonly tokens: number;
  /** How many it had before the run, and has until this is ended. */
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

  /** At most the first `drafts` guesses are right: the pages of those after them are given back now. */
  narrow(drafts: number): void {
    const op = "verification.narrow";
    this.#expectOpen(op);
    this.#most = asInteger(op, "drafts", drafts, 0, this.#most);
    this.#cut(op, this.tokens + this.#most);
  }

  /**
   * Ends it: the sequence has the certain tokens and the first `drafts` guesses from now on. Work is committed, and not
   * waited for.
   *
   * @throws {GatedDeltaError} where it is over, and what `draft.commit` throws: the sequence is as before the run then.
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

  /** Ends it, if it is open: the sequence is as it was before the run. Never throws. */
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
