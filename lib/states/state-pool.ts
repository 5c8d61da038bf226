import { asInteger, invalid, largestIndex } from "../arguments/checks.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Device } from "../device/device.ts";
import { DisposedError, ShapeError } from "../errors.ts";
import { asDevice } from "../tensor/device-handle.ts";
import { checkOptions } from "../arguments/options.ts";
import { dtypeOf, rowShape } from "./pool-shape.ts";
import type { PoolShape } from "./pool-shape.ts";
import { asPositions } from "./positions.ts";
import { makeStep } from "./pool-step.ts";
import type { PoolStep } from "./pool-step.ts";
import { makeVerification } from "./pool-verification.ts";
import type { PoolVerification, VerifyOptions } from "./pool-verification.ts";
import { asArray, reading } from "../arguments/reading.ts";
import { SlotLedger } from "./slot-ledger.ts";
import type { Holder } from "./slot-ledger.ts";
import { holderOf, isHandle, makeHandle } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import { checkExport, writeExport } from "./files/export.ts";
import type { ExportOptions } from "./files/export.ts";
import { StateFile } from "./files/load.ts";
import type { LoadOptions } from "./files/load.ts";
import { saveStates } from "./files/save.ts";
import type { SaveOptions, StateTensors } from "./files/save.ts";
import { dtypes } from "../tensor/dtype.ts";
import { sizeOf } from "../tensor/strides.ts";
import type { Tensor } from "../tensor/tensor.ts";

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
  /**
   * For each handle, after how many of its tokens in this pass its state is kept: 0..T, in any order. Each takes a free
   * slot. Give {@link PoolStep.checkpoints} to the ops; after {@link PoolStep.done} the states are {@link PoolStep.saved}.
   */
  readonly checkpoints?: readonly (readonly number[])[] | undefined;
}

const schemas = () => require("./state-schemas.ts") as typeof import("./state-schemas.ts");

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
  /** Sizes and dtypes of its states. */
  readonly shape: PoolShape;
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
    const checked = checkOptions(schemas().statePoolOptions, op, options);
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
    this.shape = Object.freeze({
      layers, keyHeads, valueHeads, keyDim, valueDim, convWidth, convChannels: channels, stateDtype, convDtype,
    });
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

  /** Bytes of one slot in all layers. */
  get slotBytes(): number {
    const bytes = (kind: "state" | "conv") => sizeOf(rowShape(this.shape, kind)) * dtypes[dtypeOf(this.shape, kind)].bytes;
    return this.layers * (bytes("state") + bytes("conv"));
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
    const positions = asPositions(op, reading(op, "checkpoints", () => options?.checkpoints), own.length, this.capacity);
    const extra = positions.reduce((sum, list) => sum + list.length, 0);
    return makeStep(this, this.#ledger, own, this.#ledger.begin(op, holders, undoable, extra), positions);
  }

  /**
   * Opens a verification: one forward pass over drafted tokens, `counts[i]` of them for handle i, of which
   * {@link PoolVerification.commit} accepts as many as turn out to be right. It counts as the handle's step until then,
   * so that a second one is an error. Records of `snapshots` take a free slot a token until the commit.
   *
   * @example
   * using draft = pool.verify([state], [4]);
   * device.run(...layers.flatMap((layer) => layer.verify({ hidden, out, pool, verification: draft })));
   * device.wait();
   * draft.commit([acceptedOf(out)]);
   */
  verify(handles: readonly StateHandle[], counts: readonly number[], options: VerifyOptions = {}): PoolVerification {
    const op = "pool.verify";
    this.#alive(op);
    const checked = checkOptions(schemas().verifyOptions, op, options);
    const given = asArray(op, "handles", "an array of StateHandles", handles, this.capacity);
    const holders = given.map((handle, i) => this.#holder(op, `handles[${i}]`, handle));
    const own = Object.freeze(given as StateHandle[]);
    const numbers = asArray(op, "counts", "an array of numbers of tokens", counts, this.capacity);
    const tokens = numbers.map((n, i) => asInteger(op, `counts[${i}]`, n, 0, largestIndex));
    if (tokens.length !== own.length) {
      throw new ShapeError({ op, argument: "counts", expected: `${own.length} numbers, one a handle`, received: `${tokens.length}` });
    }
    if (tokens.reduce((sum, n) => sum + n, 0) > largestIndex) throw invalid(op, "counts", `at most ${largestIndex} tokens in all`, counts);
    const books = checked.records === "snapshots"
      ? this.#ledger.beginTrial(op, holders, tokens)
      : this.#ledger.begin(op, holders, false);
    return makeVerification(this, this.#ledger, own, tokens, books, checked);
  }

  /**
   * Writes states to a file, in this order: safetensors with the model's shape and a checksum. Waits for pending work.
   * The file appears whole or not at all: a process killed at any moment leaves the old file or the new one.
   *
   * @param handles none of them in a step.
   * @throws {FileError} where the file can't be written.
   * @throws {GatedDeltaError} of code `state` for a handle in a step; the failure of pending work, as `device.wait`.
   */
  save(handles: readonly StateHandle[], path: string, options: SaveOptions = {}): void {
    const op = "pool.save";
    const checked = checkOptions(schemas().saveOptions, op, options);
    const slots = this.#slotsToRead(op, handles);
    this.device.wait();
    saveStates(this.#files(), slots, path, checked);
  }

  /**
   * Reads the states of a file that {@link save} wrote, into slots of their own, in the order in which they were saved.
   * Waits for pending work.
   *
   * @throws {FileError} for a file that is missing, damaged, of another shape, or (unless `convert`) of other dtypes.
   * @throws {GatedDeltaError} of code `out-of-memory` when fewer slots are free. Nothing has changed in either case.
   */
  load(path: string, options: LoadOptions = {}): StateHandle[] {
    const op = "pool.load";
    this.#alive(op);
    const { convert } = checkOptions(schemas().poolLoadOptions, op, options);
    using file = new StateFile(path, this.shape, convert);
    this.device.wait(); // what is pending may still write a slot that was freed
    const holders: Holder[] = [];
    try {
      for (let i = 0; i < file.count; i++) holders.push(this.#ledger.allocateFilled(op));
      file.readInto(this.#files(), holders.map(({ slot }) => slot));
    } catch (error) {
      for (const holder of holders) this.#ledger.release(op, holder);
      throw error;
    }
    return holders.map((holder) => makeHandle(this, this.#ledger, holder));
  }

  /**
   * Writes states to a safetensors file in the layout of another system, one row a handle, as `layers.N.state` and
   * `layers.N.conv`. Waits for pending work. The file appears whole or not at all.
   *
   * | layout | recurrent state | convolution state, oldest first |
   * |---|---|---|
   * | `mlx` | `[B, valueHeads, valueDim, keyDim]` | `[B, convWidth − 1, channels]` |
   * | `hf` | `[B, valueHeads, keyDim, valueDim]` | `[B, channels, convWidth]`, or convWidth − 1 columns |
   * | `ggml` | `[B, valueHeads, valueDim, keyDim]`, heads tiled | `[B, channels, convWidth − 1]`, value heads tiled |
   */
  export(handles: readonly StateHandle[], path: string, options: ExportOptions): void {
    const op = "pool.export";
    const checked = checkOptions(schemas().exportOptions, op, options);
    checkExport(op, this.shape, checked);
    const slots = this.#slotsToRead(op, handles);
    this.device.wait();
    writeExport(this.#files(), slots, path, checked);
  }

  /** Frees the pool's memory as soon as no pending work needs it. Its handles and steps end too. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    for (const tensor of [...this.#states, ...this.#convs]) tensor[Symbol.dispose]();
  }

  #slotsToRead(op: string, handles: readonly StateHandle[]): number[] {
    this.#alive(op);
    const given = asArray(op, "handles", "an array of StateHandles", handles, largestIndex);
    return given.map((handle, i) => {
      const argument = `handles[${i}]`;
      return this.#ledger.slotToRead(op, this.#holder(op, argument, handle), argument);
    });
  }

  #files(): StateTensors {
    return { shape: this.shape, tensor: (layer, kind) => (kind === "state" ? this.#states : this.#convs)[layer]! };
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
