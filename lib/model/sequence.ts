import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { DisposedError, GatedDeltaError } from "../errors.ts";
import type { StateHandle } from "../states/state-handle.ts";
import type { LanguageModel } from "./language-model.ts";
import type { PageLedger, PageList } from "./page-ledger.ts";
import type { Verification } from "./verification.ts";

/** A sequence's parts, as this room's other modules use them. */
export interface SequenceParts {
  readonly model: LanguageModel;
  readonly ledger: PageLedger;
  readonly handle: StateHandle;
  readonly list: PageList;
  /** Why what it holds is not what its tokens make, where its state does not say so itself. */
  lost: Error | undefined;
  /** Guesses that were read, of which it is not said yet how many are right. The list has their tokens, too, until it is. */
  verification: Verification | undefined;
}

/** Makes a sequence. */
export let makeSequence: (parts: SequenceParts) => Sequence;

/** A sequence's parts; undefined for any other value. */
export let sequenceParts: (value: unknown) => SequenceParts | undefined;

/** Throws where what a sequence holds was lost. */
export function expectValid(op: string, { handle, lost }: SequenceParts, argument?: string): void {
  if (lost === undefined && handle.valid) return;
  const message = `this sequence is invalid, since work that was to add tokens to it failed${lost === undefined ? "" : ` (${lost.message})`}: dispose it`;
  throw new GatedDeltaError("state", { op, argument, message, cause: lost });
}

/**
 * One sequence of tokens that a {@link LanguageModel} has read: the states of its Gated DeltaNet layers, and pages with
 * the keys and values of its attention layers. {@link LanguageModel.run} adds tokens.
 *
 * States and pages are shared with forks until one of them goes on, and never written while they are shared. Dispose a
 * sequence when it is over; one that is collected as garbage frees what it has at a time that the engine chooses.
 */
export class Sequence implements Disposable {
  static readonly #collected = new FinalizationRegistry<{ ledger: PageLedger; list: PageList }>(({ ledger, list }) =>
    ledger.release("sequence", list),
  );

  /** The model whose sequence it is. */
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

  /** How many tokens it has: of runs that were submitted, also those that are still pending. */
  get tokens(): number {
    this.#alive("sequence.tokens");
    const { list, verification } = this.#parts;
    return verification?.had ?? list.tokens;
  }

  /** Whether it was disposed, or its model. */
  get disposed(): boolean {
    return !this.#parts.list.live || this.#parts.handle.freed;
  }

  /**
   * Whether it can go on: not after a run of it, or of what it was forked from, has failed. What has failed is known when
   * the run's promise has settled.
   */
  get valid(): boolean {
    this.#alive("sequence.valid");
    return this.#parts.lost === undefined && this.#parts.handle.valid;
  }

  /**
   * A second sequence of the same tokens, without a copy. The state that the two need when they part is set aside now;
   * a page is taken when one of them goes on.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` when no state is free, of code `state` for an invalid sequence.
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

  /** Gives its state and pages back; forks keep theirs. May be done while a run is pending. Doing it again does nothing. */
  [Symbol.dispose](): void {
    const { ledger, handle, list } = this.#parts;
    if (!list.live) return;
    Sequence.#collected.unregister(this);
    this.#parts.verification?.leave();
    ledger.release("sequence.dispose", list);
    handle[Symbol.dispose]();
  }

  #alive(op: string): void {
    if (this.disposed) throw new DisposedError({ op, expected: "a sequence that is not disposed", received: "a disposed one" });
  }
}

/** Every state of a model is in use. */
export function noState(op: string, capacity: number, advice = ""): GatedDeltaError {
  const received = `a model whose ${capacity} states are in use`;
  return new GatedDeltaError("out-of-memory", { op, expected: `a free state${advice}`, received });
}
