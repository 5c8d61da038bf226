/**
 * What a session has of the model's memory: the sequence that has read its first tokens, or a copy of it in the host's
 * memory, or neither. It may be given back at any time between two steps, and comes back when the session goes on.
 */
import { GatedDeltaError } from "../../errors.ts";
import { memoryOf } from "../model-memory.ts";
import type { Sequence } from "../sequence.ts";
import { beginSequenceFrom } from "../snapshot.ts";
import type { Conversation } from "./conversation.ts";
import type { Holding } from "./holding.ts";
import type { Stored } from "./stored.ts";

/** What a session had when its memory was taken. */
interface Taken {
  /** How many of its tokens were read. */
  readonly read: number;
  readonly logits: boolean;
}

export class SessionMemory {
  readonly #of: Conversation;
  #holding: Holding | undefined;
  #stored: Stored | undefined;
  #taken: Taken | undefined;
  /** What is made of {@link #stored}. */
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

  /** What was taken, and is not stored. */
  get taken(): Taken | undefined {
    return this.#stored === undefined ? this.#taken : undefined;
  }

  /** The sequence, where something was read that can be gone on from. */
  get readable(): Sequence | undefined {
    return this.#holding?.valid === true && this.#holding.sequence.tokens > 0 ? this.#holding.sequence : undefined;
  }

  /** Whether there is a sequence that tokens may be added to. */
  get ready(): boolean {
    return this.#holding !== undefined && !this.#holding.shared;
  }

  /** Whether a sequence is being filled with what was stored. */
  get restoring(): boolean {
    return this.#restoring !== undefined;
  }

  /** Whether nothing was read, or it was given back. */
  get empty(): boolean {
    return this.#holding === undefined && this.#stored === undefined;
  }

  /** Pages that the session must be able to have before {@link begin}. */
  get pagesToBegin(): number {
    if (this.#holding !== undefined) return 0;
    const { pageTokens } = memoryOf(this.#of.model).pages.ledger;
    return this.#stored === undefined ? (this.#of.request?.floor ?? 0) : Math.ceil(this.#stored.snapshot.tokens / pageTokens);
  }

  /**
   * Ends a verification of guesses: those that were given out are accepted. The last token stays to be read, unless its logits
   * are kept. Tokens that were chosen and not given out are read again, should they be.
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

  /** Shares what another session has. */
  shareFrom(other: SessionMemory): void {
    if (other.#holding?.valid === true) this.#holding = other.#holding.join(this.#of);
    this.stored = other.#stored;
    this.#taken = other.#taken;
  }

  /** Throws where it could not be brought back, and drops what has become invalid. */
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
   * Makes it {@link ready}: by a sequence that the cache has the beginning of, an empty one, or a fork of the one that is
   * shared. A stored one takes time: it is {@link restoring} afterwards. Takes a state where there is none of its own.
   *
   * @returns how many tokens the cache had.
   */
  begin(): number {
    const { model, tokens, parts: { cache, salt } } = this.#of;
    if (this.ready || this.restoring) return 0;
    if (this.#holding !== undefined) {
      this.#hold(this.#holding.sequence.fork());
    } else if (this.#stored !== undefined) {
      this.#restore(this.#stored);
    } else {
      // The last token is read in any case: it gives the logits.
      const hit = cache?.lookup(Uint32Array.from(tokens.slice(0, -1)), salt);
      this.#hold(hit ?? model.sequence());
      return hit?.tokens ?? 0;
    }
    return 0;
  }

  /** Gives the sequence back, for others. What was in it comes back when the session goes on. */
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
      if (request.whenFull === "error") request.refused = gaveWayError();
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
    this.#holding = this.#of.parts.scheduler.room.hold(sequence, this.#of);
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
      this.#of.parts.scheduler.freed();
    };
    void filled.then((done) => over(() => {
      if (!done) return;
      this.#hold(sequence);
      this.stored = undefined;
    }), (error: unknown) => over(() => (this.#restoreError = { error })));
  }
}

/** A request gave what it had to an earlier one, and was not to wait. */
function gaveWayError(): GatedDeltaError {
  const expected = "free states and pages for all requests at work (`states` and `pages` of LanguageModel.load)";
  return new GatedDeltaError("out-of-memory", { op: "session", expected, received: "fewer, which an earlier request has taken" });
}
