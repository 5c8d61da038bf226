import { settle } from "../device/device.ts";
import { DisposedError, GatedDeltaError } from "../errors.ts";
import type { PoolStep } from "./pool-step.ts";
import type { Draft } from "./draft.ts";
import type { Holder, SlotLedger } from "./slot-ledger.ts";
import type { StatePool } from "./state-pool.ts";

/** Whether a value is a {@link StateHandle}. */
export let isHandle: (value: unknown) => value is StateHandle;

/** A handle's entry in the ledger. */
export let holderOf: (handle: StateHandle) => Holder;

/** Whether freeing a handle would give its pool a slot at once. */
export let givesSlot: (handle: StateHandle) => boolean;

/** Notes the step that a handle is in; undefined when that is over. */
export let setStep: (handle: StateHandle, step: PoolStep | Draft | undefined) => void;

/** Makes the handle of a ledger's entry. */
export let makeHandle: (pool: StatePool, ledger: SlotLedger, holder: Holder) => StateHandle;

let makingHandle = false;

/**
 * One sequence's state in every layer of a {@link StatePool}. Free it when the sequence is over; a handle that is
 * collected as garbage frees itself at a time that the engine chooses.
 */
export class StateHandle implements Disposable {
  static readonly #collected = new FinalizationRegistry<{ ledger: SlotLedger; holder: Holder }>(
    ({ ledger, holder }) => {
      // A step lives as long as one of its handles: where one is open here, nobody can end it any more.
      if (holder.step !== undefined) {
        holder.step.collected?.();
        ledger.abort(holder.step);
      }
      ledger.release("handle.free", holder);
    },
  );

  /** The pool that it belongs to. */
  readonly pool: StatePool;
  readonly #ledger: SlotLedger;
  readonly #holder: Holder;
  #step: PoolStep | Draft | undefined;

  private constructor(pool: StatePool, ledger: SlotLedger, holder: Holder) {
    if (!makingHandle)
      throw new GatedDeltaError("invalid-argument", { op: "StateHandle", expected: "pool.allocate()" });
    this.pool = pool;
    this.#ledger = ledger;
    this.#holder = holder;
    StateHandle.#collected.register(this, { ledger, holder }, this);
    Object.freeze(this);
  }

  static {
    isHandle = (value): value is StateHandle => typeof value === "object" && value !== null && #holder in value;
    holderOf = (handle) => handle.#holder;
    givesSlot = (handle) => handle.#ledger.givesSlot(handle.#holder);
    setStep = (handle, step) => void (handle.#step = step);
    makeHandle = (pool, ledger, holder) => {
      makingHandle = true;
      try {
        return new StateHandle(pool, ledger, holder);
      } finally {
        makingHandle = false;
      }
    };
  }

  /** Whether it was freed, or its pool disposed. */
  get freed(): boolean {
    return !this.#holder.live || this.pool.disposed;
  }

  /**
   * The slot that holds the state now, in every layer's pools; −1 while it is all zeros and has none. Steps move
   * states, so look it up each time.
   */
  get slot(): number {
    this.#alive("handle.slot");
    return this.#holder.fresh ? -1 : this.#holder.slot;
  }

  /** Whether other states share its slot: it was forked, and not all of them have stepped or been freed since. */
  get shared(): boolean {
    this.#alive("handle.shared");
    return this.#ledger.isShared(this.#holder);
  }

  /**
   * Whether it can be read: not after work that was to write it, or what it was forked from, has failed. What has failed
   * is known at the latest when `device.wait`, `device.finish` or `pool.save` returns.
   */
  get valid(): boolean {
    this.#alive("handle.valid");
    this.pool.device[settle]();
    return this.#holder.content.failure === undefined;
  }

  /** The step or draft that it is in, if any. */
  get step(): PoolStep | Draft | undefined {
    return this.#step;
  }

  /**
   * A second state with the same content, without a copy. The slot that the two need when they part is set aside now:
   * a fork fails here or never.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` when no slot is free, of code `state` during a step of this handle
   *   or when the state is invalid.
   */
  fork(): StateHandle {
    this.#alive("handle.fork");
    this.pool.device[settle]();
    return makeHandle(this.pool, this.#ledger, this.#ledger.fork("handle.fork", this.#holder));
  }

  /**
   * Frees the state; forks keep theirs.
   *
   * @throws {DisposedError} when it was freed before.
   * @throws {GatedDeltaError} of code `state` during a step of this handle.
   */
  free(): void {
    this.#alive("handle.free");
    this.#ledger.release("handle.free", this.#holder);
    StateHandle.#collected.unregister(this);
  }

  /** {@link free}, but does nothing when it was freed before, and aborts a step that it is still in. */
  [Symbol.dispose](): void {
    if (this.freed) return;
    this.#step?.[Symbol.dispose]();
    this.free();
  }

  #alive(op: string): void {
    if (this.freed) throw new DisposedError({ op, expected: "a state that is not freed", received: "a freed one" });
  }
}
