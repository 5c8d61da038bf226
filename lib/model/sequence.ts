import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { DisposedError, GatedDeltaError } from "../errors.ts";
import type { StateHandle } from "../states/state-handle.ts";
import type { LanguageModel } from "./language-model.ts";
import type { PageLedger, PageList } from "./page-ledger.ts";
import type { Verification } from "./verification.ts";

/** The private parts of a sequence, for the other modules of this room. */
export interface SequenceParts {
  readonly model: LanguageModel;
  readonly ledger: PageLedger;
  readonly handle: StateHandle;
  readonly list: PageList;
  /** The failure after which states and pages do not match the tokens although the state handle is still valid. */
  lost: Error | undefined;
  /** Guesses that were read and are not yet accepted or rejected. Until then the list includes their tokens. */
  verification: Verification | undefined;
}

/** Makes a sequence. */
export let makeSequence: (parts: SequenceParts) => Sequence;

/** The private parts of a sequence; undefined for any other value. */
export let sequenceParts: (value: unknown) => SequenceParts | undefined;

/** Throws if the states or pages of a sequence were lost. */
export function expectValid(op: string, { handle, lost }: SequenceParts, argument?: string): void {
  if (lost === undefined && handle.valid) return;
  const message = `this sequence is invalid because work that added tokens to it failed${lost === undefined ? "" : ` (${lost.message})`}: dispose it`;
  throw new GatedDeltaError("state", { op, argument, message, cause: lost });
}

/**
 * One sequence of tokens that a {@link LanguageModel} has read: the states of its Gated DeltaNet layers, and pages with
 * the keys and values of its attention layers. {@link LanguageModel.run} adds tokens.
 *
 * Forks share states and pages until one of them continues; shared memory is never written. Dispose a sequence when it ends;
 * otherwise its memory is freed when it is garbage-collected.
 */
export class Sequence implements Disposable {
  static readonly #collected = new FinalizationRegistry<{ ledger: PageLedger; list: PageList }>(({ ledger, list }) =>
    ledger.release("sequence", list),
  );

  /** The model that reads the sequence. */
  readonly model: LanguageModel;
  readonly #parts: SequenceParts;

  private constructor(by: Maker, parts: SequenceParts) {
    expectMaker(by, "Sequence", "model.sequence()");
    this.model = parts.model;
    this.#parts = parts;
    const { ledger, list } = parts;
    Sequence.#collected.register(this, { ledger, list }, this);
    Object.freeze(this);
  }

  static {
    sequenceParts = (value) => (typeof value === "object" && value !== null && #parts in value ? value.#parts : undefined);
    makeSequence = (parts) => new Sequence(maker, parts);
  }

  /** Number of tokens, including those of pending runs. */
  get tokens(): number {
    this.#alive("sequence.tokens");
    const { list, verification } = this.#parts;
    return verification?.had ?? list.tokens;
  }

  /** Whether the sequence or its model was disposed. */
  get disposed(): boolean {
    return !this.#parts.list.live || this.#parts.handle.freed;
  }

  /**
   * Whether the sequence can continue: false once the promise of a failed run has settled, of the sequence itself or of the one
   * that it was forked from.
   */
  get valid(): boolean {
    this.#alive("sequence.valid");
    return this.#parts.lost === undefined && this.#parts.handle.valid;
  }

  /**
   * A second sequence of the same tokens, without a copy. The state that one of them will need is reserved now; a page is taken
   * when one of them continues.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` if no state is free, or of code `state` for an invalid sequence.
   */
  fork(): Sequence {
    const op = "sequence.fork";
    this.#alive(op);
    const { model, ledger, handle, list } = this.#parts;
    expectValid(op, this.#parts);
    this.#parts.verification?.leave();
    const { free, capacity } = handle.pool;
    if (free === 0) throw noState(op, capacity);
    const forked = handle.fork();
    return makeSequence({ model, ledger, handle: forked, list: ledger.fork(op, list), lost: undefined, verification: undefined });
  }

  /** Frees the state and pages; forks keep theirs. May be called while a run is pending, and more than once. */
  [Symbol.dispose](): void {
    const { ledger, handle, list } = this.#parts;
    if (!list.live) return;
    Sequence.#collected.unregister(this);
    this.#parts.verification?.leave();
    ledger.release("sequence.dispose", list);
    handle[Symbol.dispose]();
  }

  #alive(op: string): void {
    if (this.disposed) throw new DisposedError({ op, expected: "a sequence that is not disposed" });
  }
}

/** The error that all states of a model are in use. */
export function noState(op: string, capacity: number, advice = ""): GatedDeltaError {
  const received = `a model whose ${capacity} states are in use`;
  return new GatedDeltaError("out-of-memory", { op, expected: `a free state${advice}`, received });
}
