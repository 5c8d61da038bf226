import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { settle } from "../device/device.ts";
import { DisposedError } from "../errors.ts";
import type { PoolStep } from "./pool-step.ts";
import type { Draft } from "./draft.ts";
import type { Holder, SlotLedger } from "./slot-ledger.ts";
import type { StatePool } from "./state-pool.ts";

/** Whether a value is a {@link StateHandle}. */
export let isHandle: (value: unknown) => value is StateHandle;

/** A handle's holder in the ledger. */
export let holderOf: (handle: StateHandle) => Holder;

/** The ledger of a handle's pool. */
export let ledgerOf: (handle: StateHandle) => SlotLedger;

/** Whether freeing a handle would free a slot of its pool at once. */
export let givesSlot: (handle: StateHandle) => boolean;

/** Sets the step or draft that a handle is in. */
export let setStep: (handle: StateHandle, step: PoolStep | Draft | undefined) => void;

/** Makes the handle of a ledger's holder. */
export let makeHandle: (pool: StatePool, ledger: SlotLedger, holder: Holder) => StateHandle;

/**
 * One sequence's state in every layer of a {@link StatePool}. Free it when the sequence ends; otherwise it is freed when the
 * handle is garbage-collected, at a time that the engine chooses.
 */
export class StateHandle implements Disposable {
  static readonly #collected = new FinalizationRegistry<{ ledger: SlotLedger; holder: Holder }>(
    ({ ledger, holder }) => {
      // A step lives as long as any of its handles, so this open step has been collected, too.
      holder.step?.undo?.();
      ledger.release("handle.free", holder);
    },
  );

  /** The pool that the state belongs to. */
  readonly pool: StatePool;
  readonly #ledger: SlotLedger;
  readonly #holder: Holder;
  #step: PoolStep | Draft | undefined;

  private constructor(by: Maker, pool: StatePool, ledger: SlotLedger, holder: Holder) {
    expectMaker(by, "StateHandle", "pool.allocate()");
    this.pool = pool;
    this.#ledger = ledger;
    this.#holder = holder;
    StateHandle.#collected.register(this, { ledger, holder }, this);
    Object.freeze(this);
  }

  static {
    isHandle = (value): value is StateHandle => typeof value === "object" && value !== null && #holder in value;
    holderOf = (handle) => handle.#holder;
    ledgerOf = (handle) => handle.#ledger;
    givesSlot = (handle) => handle.#ledger.givesSlot(handle.#holder);
    setStep = (handle, step) => void (handle.#step = step);
    makeHandle = (pool, ledger, holder) => new StateHandle(maker, pool, ledger, holder);
  }

  /** Whether the state was freed or its pool disposed. */
  get freed(): boolean {
    return !this.#holder.live || this.pool.disposed;
  }

  /**
   * The slot that holds the state, the same in every layer; −1 while the state is all zeros and has none. Steps move states:
   * read it each time.
   */
  get slot(): number {
    this.#alive("handle.slot");
    return this.#holder.fresh ? -1 : this.#holder.slot;
  }

  /** Whether the state shares its slot with forks that have neither stepped nor been freed. */
  get shared(): boolean {
    this.#alive("handle.shared");
    return this.#ledger.isShared(this.#holder);
  }

  /**
   * Whether the state can be read: false after the failure of work that should have written it or the state it was forked from.
   * Failures are known at the latest when `device.wait`, `device.finish` or `pool.save` returns.
   */
  get valid(): boolean {
    this.#alive("handle.valid");
    this.pool.device[settle]();
    return this.#holder.content.failure === undefined;
  }

  /** The step or draft that the state is in, if any. */
  get step(): PoolStep | Draft | undefined {
    return this.#step;
  }

  /**
   * A second state with the same content, without a copy. The fork reserves the slot that is needed when one of the two
   * steps, so it fails here or never.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` if no slot is free, or of code `state` during a step of this handle or
   *   if the state is invalid.
   */
  fork(): StateHandle {
    this.#alive("handle.fork");
    this.pool.device[settle]();
    return makeHandle(this.pool, this.#ledger, this.#ledger.fork("handle.fork", this.#holder));
  }

  /**
   * Frees the state; forks keep theirs.
   *
   * @throws {DisposedError} if it was already freed.
   * @throws {GatedDeltaError} of code `state` during a step of this handle.
   */
  free(): void {
    this.#alive("handle.free");
    this.#ledger.release("handle.free", this.#holder);
    StateHandle.#collected.unregister(this);
  }

  /** Like {@link free}, but does nothing if the state was already freed, and undoes a step that the state is still in. */
  [Symbol.dispose](): void {
    if (this.freed) return;
    this.#step?.[Symbol.dispose]();
    this.free();
  }

  #alive(op: string): void {
    if (this.freed) throw new DisposedError({ op, expected: "a state that is not freed", received: "a freed one" });
  }
}
