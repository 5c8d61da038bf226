/**
 * A session's share of the model's memory: the sequence that has read its first tokens, a copy of the sequence in the host's
 * memory, or neither. The sequence can be taken at any time between two steps, and is restored when the session continues.
 */
import { GatedDeltaError } from "../../errors.ts";
import { memoryOf } from "../model-memory.ts";
import type { Sequence } from "../sequence.ts";
import { beginSequenceFrom } from "../snapshot.ts";
import type { Conversation } from "./conversation.ts";
import type { Holding } from "./holding.ts";
import type { Stored } from "./stored.ts";

/** A session's progress when its memory was taken. */
interface Taken {
  /** How many of the session's tokens were read. */
  readonly read: number;
  readonly logits: boolean;
}

export class SessionMemory {
  readonly #of: Conversation;
  #holding: Holding | undefined;
  #stored: Stored | undefined;
  #taken: Taken | undefined;
  /** The sequence that is being filled from {@link #stored}. */
  #restoring: Sequence | undefined;
  #restoreError: { readonly error: unknown } | undefined;

  constructor(of: Conversation) {
    this.#of = of;
  }

  get holding(): Holding | undefined {
    return this.#holding;
  }

  /** A copy in the host's memory. */
  get stored(): Stored | undefined {
    return this.#stored;
  }

  set stored(stored: Stored | undefined) {
    this.#stored?.leave();
    this.#stored = stored?.join();
  }

  /** How many of the tokens were read. */
  get read(): number {
    if (this.#holding === undefined) return this.#stored?.snapshot.tokens ?? 0;
    return this.#holding.sequence.disposed ? 0 : this.#holding.sequence.tokens;
  }

  /** The progress that was lost: taken but not stored. */
  get taken(): Taken | undefined {
    return this.#stored === undefined ? this.#taken : undefined;
  }

  /** The sequence, if it is valid and has read tokens. */
  get readable(): Sequence | undefined {
    return this.#holding?.valid === true && this.#holding.sequence.tokens > 0 ? this.#holding.sequence : undefined;
  }

  /** Whether there is an unshared sequence, to which tokens may be added. */
  get ready(): boolean {
    return this.#holding !== undefined && !this.#holding.shared;
  }

  /** Whether a sequence is being filled from the stored copy. */
  get restoring(): boolean {
    return this.#restoring !== undefined;
  }

  /** Whether there is neither a sequence nor a stored copy. */
  get empty(): boolean {
    return this.#holding === undefined && this.#stored === undefined;
  }

  /** Pages that must be available before {@link begin}. */
  get pagesToBegin(): number {
    if (this.#holding !== undefined) return 0;
    const { pageTokens } = memoryOf(this.#of.model).pages.ledger;
    return this.#stored === undefined ? (this.#of.request?.floor ?? 0) : Math.ceil(this.#stored.snapshot.tokens / pageTokens);
  }

  /**
   * Ends a verification of guesses and accepts the tokens that were returned to the consumer. The last token remains to be
   * read, unless its logits are kept. Tokens that were chosen but not returned are read again if needed.
   */
  settle(): void {
    const verification = this.#holding?.verification;
    if (verification === undefined) return;
    const { tokens, logits } = this.#of;
    const drafts = tokens.length - verification.tokens - (logits === undefined ? 1 : 0);
    if (drafts >= 0 && this.#holding!.valid) verification.accept(drafts);
    else verification.leave();
    this.#of.advanced();
  }

  /** Shares another session's memory. */
  shareFrom(other: SessionMemory): void {
    if (other.#holding?.valid === true) this.#holding = other.#holding.join(this.#of);
    this.stored = other.#stored;
    this.#taken = other.#taken;
  }

  /** Throws if restoring failed, and drops an invalid sequence. */
  check(): void {
    if (this.#restoreError !== undefined) {
      const { error } = this.#restoreError;
      this.#restoreError = undefined;
      throw error;
    }
    if (this.#holding?.valid === false) this.#of.drop();
    this.settle();
  }

  /**
   * Makes the memory {@link ready}, with a fork of a cached prefix, an empty sequence, or a fork of the shared one. Restoring a
   * stored copy takes time: the memory is {@link restoring} at first. Takes a state unless the session has its own.
   *
   * @returns how many tokens the cache had.
   */
  begin(): number {
    const { model, context: { cache, salt } } = this.#of;
    if (this.ready || this.restoring) return 0;
    if (this.#holding !== undefined) {
      this.#hold(this.#holding.sequence.fork());
    } else if (this.#stored !== undefined) {
      this.#restore(this.#stored);
    } else {
      // The last token is always read, for its logits.
      const hit = cache?.lookup(this.#of.key(this.#of.tokens.length - 1), salt);
      this.#hold(hit ?? model.sequence());
      return hit?.tokens ?? 0;
    }
    return 0;
  }

  /** Frees the sequence's memory for others. The contents are restored when the session continues. */
  giveBack(stored: Stored | undefined): void {
    const holding = this.#holding;
    if (holding === undefined) return;
    this.#taken ??= { read: this.read, logits: this.#of.logits !== undefined };
    if (stored === undefined) this.#of.forget();
    else this.stored = stored;
    const { request } = this.#of;
    if (request !== undefined) {
      const { pageTokens } = memoryOf(this.#of.model).pages.ledger;
      request.floor = Math.min(holding.list.pages.length + 1, Math.ceil(this.#of.tokens.length / pageTokens));
      // An idle request waits for nothing now, and is read again when its consumer asks for more.
      if (request.whenFull === "error" && !request.paused) request.refused = gaveWayError();
    }
    this.#holding = undefined;
    holding.leave(this.#of);
  }

  /** Drops everything. */
  drop(): void {
    const holding = this.#holding;
    this.#holding = undefined;
    holding?.leave(this.#of);
    this.#restoring?.[Symbol.dispose]();
    this.#restoring = undefined;
    this.stored = undefined;
    this.#taken = undefined;
  }

  #hold(sequence: Sequence): void {
    const old = this.#holding;
    this.#holding = this.#of.context.scheduler.room.hold(sequence, this.#of);
    this.#taken = undefined;
    old?.leave(this.#of);
  }

  #restore(stored: Stored): void {
    const { sequence, filled } = beginSequenceFrom(this.#of.model, stored.snapshot);
    this.#restoring = sequence;
    const over = (then: () => void) => {
      if (this.#restoring !== sequence) return;
      this.#restoring = undefined;
      then();
      this.#of.context.scheduler.freed();
    };
    void filled.then((done) => over(() => {
      if (!done) return;
      this.#hold(sequence);
      this.stored = undefined;
      this.#of.restored(stored);
    }), (error: unknown) => over(() => (this.#restoreError = { error })));
  }
}

/** The error of a request with `whenFull: "error"` that had to give its memory to an earlier one. */
function gaveWayError(): GatedDeltaError {
  const expected = "free states and pages for all requests at work (`states` and `pages` of LanguageModel.load)";
  return new GatedDeltaError("out-of-memory", { op: "session", expected, received: "fewer, which an earlier request has taken" });
}
