import { DisposedError, GatedDeltaError } from "../errors.ts";
import type { LedgerStep, SlotLedger } from "./slot-ledger.ts";
import { makeHandle, setStep } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import type { StatePool } from "./state-pool.ts";

/** Opens a step's public face. `positions[i]` are the tokens after which state i is kept. */
export let makeStep: (
  pool: StatePool,
  ledger: SlotLedger,
  handles: readonly StateHandle[],
  books: LedgerStep,
  positions?: readonly (readonly number[])[],
) => PoolStep;

/** Where an op writes states on the way through its sequences. */
export interface Checkpoints {
  /** `[sequences + 1]`: sequence s has the entries offsets[s] up to, not including, offsets[s + 1]. */
  readonly offsets: Int32Array;
  /** After how many of the sequence's tokens in this call, 0 and all of them included. */
  readonly tokens: Int32Array;
  /** The slot that the state then goes to. */
  readonly slots: Int32Array;
}

let makingStep = false;

/**
 * One forward pass over some states of a {@link StatePool}: which slots to read and write, in every layer and for both
 * kinds of state. It ends with {@link done} or {@link abort}; `using` aborts what was not done.
 */
export class PoolStep implements Disposable {
  /** The states, in the order of the slots. */
  readonly handles: readonly StateHandle[];
  /** The slot that each sequence reads; −1 for zeros. */
  readonly readSlots: Int32Array;
  /** The slot that each sequence writes, all distinct. */
  readonly writeSlots: Int32Array;
  readonly #positions: readonly (readonly number[])[];
  readonly #checkpoints: Checkpoints | undefined;
  /** Whether anybody looked at the checkpoints; where nobody did, no op can have written them. */
  #taken = false;
  #saved: readonly (readonly StateHandle[])[] | undefined;
  readonly #pool: StatePool;
  readonly #ledger: SlotLedger;
  readonly #books: LedgerStep;
  /** The last commit when the step began: what was committed later may have written its slots. */
  readonly #ticket: number;

  private constructor(
    pool: StatePool,
    ledger: SlotLedger,
    handles: readonly StateHandle[],
    books: LedgerStep,
    positions: readonly (readonly number[])[],
  ) {
    if (!makingStep) throw new GatedDeltaError("invalid-argument", { op: "PoolStep", expected: "pool.step(…)" });
    this.handles = handles;
    // Copies: what a caller writes into these arrays must not reach the books.
    this.readSlots = books.readSlots.slice();
    this.writeSlots = books.writeSlots.slice();
    this.#checkpoints = checkpointsOf(positions, books.extraSlots);
    this.#positions = positions;
    this.#pool = pool;
    this.#ledger = ledger;
    this.#books = books;
    this.#ticket = pool.device.lastTicket;
    for (const handle of handles) setStep(handle, this);
    Object.freeze(this);
  }

  static {
    makeStep = (pool, ledger, handles, books, positions = []) => {
      makingStep = true;
      try {
        return new PoolStep(pool, ledger, handles, books, positions);
      } finally {
        makingStep = false;
      }
    };
  }

  /** Where ops write the states that were asked for on the way; undefined where none were. For every layer's ops, both kinds. */
  get checkpoints(): Checkpoints | undefined {
    this.#taken = true;
    return this.#checkpoints;
  }

  /** Whether neither {@link done} nor {@link abort} was called yet. */
  get open(): boolean {
    return this.#books.open && !this.#pool.disposed;
  }

  /**
   * Makes what was written the content of each state. The ops must have been committed, not finished: later ops on the
   * device run after them.
   *
   * @throws {GatedDeltaError} of code `state` where checkpoints were asked for and nobody took {@link checkpoints}: their
   *   slots hold whatever was there before. The step stays open.
   */
  done(): void {
    const op = "step.done";
    this.#expectOpen(op);
    if (this.#checkpoints !== undefined && !this.#taken) {
      const message = "checkpoints were asked for, but no op was given step.checkpoints, so none were written";
      throw new GatedDeltaError("state", { op, argument: "checkpoints", message });
    }
    const holders = this.#ledger.finish(this.#books);
    let next = 0;
    this.#saved = this.#positions.map((list) => list.map(() => makeHandle(this.#pool, this.#ledger, holders[next++]!)));
    this.#end();
  }

  /**
   * The states on the way, for each handle in the order that its positions were given. The caller's to free.
   *
   * @throws {GatedDeltaError} of code `state` before {@link done}.
   */
  get saved(): readonly (readonly StateHandle[])[] {
    if (this.#saved !== undefined) return this.#saved;
    throw new GatedDeltaError("state", { op: "step.saved", message: "checkpoints are there once done() was called" });
  }

  /**
   * Drops the step: every state is what it was before.
   *
   * States that share nothing are stepped in place, unless the step is `undoable`. Once something was committed on
   * the device after the step began, such a state may be overwritten already, and what can't be taken back is not
   * dropped in silence:
   *
   * @throws {GatedDeltaError} of code `state` then; the step stays open and can be {@link done}.
   */
  abort(): void {
    const op = "step.abort";
    this.#expectOpen(op);
    if (this.#books.overwrites && this.#pool.device.lastTicket !== this.#ticket) {
      const message =
        "work was committed since this step began, and it writes over states that are not shared: " +
        "call done(), or begin such steps with { undoable: true }";
      throw new GatedDeltaError("state", { op, message });
    }
    this.#ledger.abort(this.#books);
    this.#end();
  }

  /** {@link abort}, unless the step is over. */
  [Symbol.dispose](): void {
    if (this.open) this.abort();
  }

  #end(): void {
    for (const handle of this.handles) setStep(handle, undefined);
  }

  #expectOpen(op: string): void {
    if (this.#pool.disposed) throw new DisposedError({ op, expected: "a pool that is not disposed" });
    if (!this.#books.open) throw new GatedDeltaError("state", { op, message: "the step is over" });
  }
}

function checkpointsOf(positions: readonly (readonly number[])[], slots: readonly number[]): Checkpoints | undefined {
  if (slots.length === 0) return undefined;
  const offsets = new Int32Array(positions.length + 1);
  for (const [i, list] of positions.entries()) offsets[i + 1] = offsets[i]! + list.length;
  return { offsets, tokens: Int32Array.from(positions.flat()), slots: Int32Array.from(slots) };
}
