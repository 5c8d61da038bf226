import { asInteger, invalid } from "./check.ts";
import type { FloatDType } from "./dtype.ts";
import type { Device } from "./device.ts";
import { DisposedError, ShapeError } from "./errors.ts";
import { asDevice } from "./internal.ts";
import { checkOptions } from "./options.ts";
import { makeStep } from "./pool-step.ts";
import type { PoolStep } from "./pool-step.ts";
import { asArray, reading } from "./reading.ts";
import { SlotLedger } from "./slot-ledger.ts";
import type { Holder } from "./slot-ledger.ts";
import { holderOf, isHandle, makeHandle } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import type { Tensor } from "./tensor.ts";

/** Options of {@link StatePool.create}. */
export interface StatePoolOptions {
  /** How many states there can be at a time. Forks count like any other. */
  readonly slots: number;
  /** Gated DeltaNet layers of the model. */
  readonly layers: number;
  readonly keyHeads: number;
  /** A multiple of `keyHeads`. */
  readonly valueHeads: number;
  /** A multiple of 8 in 8..256. */
  readonly keyDim: number;
  /** A multiple of 8 in 8..256. */
  readonly valueDim: number;
  /** Taps of the convolution, 2..9. */
  readonly convWidth: number;
  /** Channels of the convolution. @default 2·keyHeads·keyDim + valueHeads·valueDim */
  readonly convChannels?: number | undefined;
  /** Element type of the recurrent states. Arithmetic is float32 in any case. @default "f32" */
  readonly stateDtype?: FloatDType | undefined;
  /** Element type of the convolution's states: the activation dtype or f32. @default "f32" */
  readonly convDtype?: FloatDType | undefined;
}

/** Options of {@link StatePool.step}. */
export interface StepOptions {
  /**
   * Write beside every state and never over one, so that {@link PoolStep.abort} can take back work that has run. Costs
   * a free slot for each handle until the step is done. @default false
   */
  readonly undoable?: boolean | undefined;
}

/** Whether a value is a {@link StatePool}. */
export let isPool: (value: unknown) => value is StatePool;

/**
 * The states of many sequences: for every layer, a pool of recurrent states and one of convolution states, in slots.
 *
 * A {@link StateHandle} is one sequence's state in all layers. Which slot holds it is the pool's business: `step`
 * gives the slots to read and to write for one forward pass, the same for every layer and both kinds of state.
 *
 * - A new state reads as zeros: its read slot is −1 at first, which ops turn into stored zeros.
 * - A fork costs no copy. It shares its parent's slot until one of them steps; that one writes to another slot, which
 *   the fork set aside. A slot that others share is not written.
 * - A state that shares nothing is stepped in place.
 *
 * @example
 * using pool = StatePool.create(device, { slots: 8, layers: 36, keyHeads: 16, valueHeads: 32, keyDim: 128, valueDim: 128, convWidth: 4 });
 * using state = pool.allocate();
 * using step = pool.step([state]);
 * device.run((pass) => {
 *   for (const layer of layers) {
 *     pass.gatedDeltaStep({ …, convState: pool.conv(layer), state: pool.state(layer), readSlots: step.readSlots, writeSlots: step.writeSlots });
 *   }
 * });
 * step.done();
 */
export class StatePool implements Disposable {
  /** The device whose memory it is in. */
  readonly device: Device;
  /** Number of layers. */
  readonly layers: number;
  readonly #ledger: SlotLedger;
  readonly #states: readonly Tensor[];
  readonly #convs: readonly Tensor[];
  #disposed = false;

  static {
    isPool = (value): value is StatePool => typeof value === "object" && value !== null && #ledger in value;
  }

  private constructor(device: Device, options: StatePoolOptions) {
    const op = "StatePool.create";
    asDevice(op, device);
    const checked = checkOptions("statePoolOptions", op, options);
    const { slots, layers, keyHeads, valueHeads, keyDim, valueDim, convWidth, stateDtype, convDtype } = checked;
    if (valueHeads % keyHeads !== 0) {
      throw new ShapeError({
        op,
        argument: "valueHeads",
        expected: `a multiple of keyHeads, ${keyHeads}`,
        received: `${valueHeads}`,
      });
    }
    const channels = checked.convChannels ?? 2 * keyHeads * keyDim + valueHeads * valueDim;
    this.device = device;
    this.layers = layers;
    const states: Tensor[] = [];
    const convs: Tensor[] = [];
    try {
      for (let layer = 0; layer < layers; layer++) {
        states.push(device.tensor(stateDtype, [slots, valueHeads, valueDim, keyDim]));
        convs.push(device.tensor(convDtype, [slots, channels, convWidth - 1]));
      }
    } catch (error) {
      for (const tensor of [...states, ...convs]) tensor[Symbol.dispose]();
      throw error;
    }
    this.#states = states;
    this.#convs = convs;
    this.#ledger = new SlotLedger(slots);
  }

  /**
   * Allocates a pool: for each layer `[slots, valueHeads, valueDim, keyDim]` and `[slots, convChannels, convWidth − 1]`.
   *
   * @throws {ShapeError} where one layer's pool would be longer than a tensor can be (4 GiB − 16 KiB).
   */
  static create(device: Device, options: StatePoolOptions): StatePool {
    return new StatePool(device, options);
  }

  /** Slots in all. */
  get capacity(): number {
    return this.#ledger.capacity;
  }

  /**
   * Slots that {@link allocate} and {@link StateHandle.fork} can still have: capacity less the number of states that
   * are not freed, and less what open steps use beside that.
   */
  get free(): number {
    return this.#ledger.free;
  }

  /** Whether the pool is gone. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /** The recurrent states of a layer, `[slots, valueHeads, valueDim, keyDim]`. */
  state(layer: number): Tensor {
    return this.#layer("pool.state", this.#states, layer);
  }

  /** The convolution states of a layer, `[slots, convChannels, convWidth − 1]`, oldest first. */
  conv(layer: number): Tensor {
    return this.#layer("pool.conv", this.#convs, layer);
  }

  /**
   * A new state, all zeros.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` when no slot is free.
   */
  allocate(): StateHandle {
    this.#alive("pool.allocate");
    return makeHandle(this, this.#ledger, this.#ledger.allocate("pool.allocate"));
  }

  /**
   * Makes a state all zeros again. Nothing is written now: its next step starts from zeros by store, so that whatever
   * the slot held, NaN included, is gone.
   */
  zero(handle: StateHandle): void {
    this.#ledger.zero("pool.zero", this.#holder("pool.zero", "handle", handle));
  }

  /**
   * Opens a step: one forward pass over some states, in this order. Run every layer's ops with its slots, then call
   * {@link PoolStep.done}. A state has at most one open step.
   *
   * @param handles one a sequence, each once.
   * @throws {GatedDeltaError} of code `state` for a handle that has an open step; nothing has changed then.
   */
  step(handles: readonly StateHandle[], options: StepOptions = {}): PoolStep {
    const op = "pool.step";
    this.#alive(op);
    const undoable = reading(op, "undoable", () => options?.undoable ?? false);
    if (typeof undoable !== "boolean") throw invalid(op, "undoable", "a boolean", undoable);
    // A state comes once in a step, so no step has more of them than the pool has slots.
    const given = asArray(op, "handles", "an array of StateHandles", handles, this.capacity);
    const holders = given.map((handle, i) => this.#holder(op, `handles[${i}]`, handle));
    const own = Object.freeze(given as StateHandle[]);
    return makeStep(this, this.#ledger, own, this.#ledger.begin(op, holders, undoable));
  }

  /** Frees the pool's memory as soon as no pending work needs it. Its handles and steps end too. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    for (const tensor of [...this.#states, ...this.#convs]) tensor[Symbol.dispose]();
  }

  #holder(op: string, argument: string, handle: unknown): Holder {
    this.#alive(op);
    if (!isHandle(handle)) throw invalid(op, argument, "a StateHandle", handle);
    if (handle.pool !== this) throw invalid(op, argument, "a StateHandle of this pool", "one of another pool");
    return holderOf(handle);
  }

  #layer(op: string, tensors: readonly Tensor[], layer: number): Tensor {
    this.#alive(op);
    return tensors[asInteger(op, "layer", layer, 0, this.layers - 1)]!;
  }

  #alive(op: string): void {
    if (this.#disposed) throw new DisposedError({ op, expected: "a pool that is not disposed" });
  }
}
