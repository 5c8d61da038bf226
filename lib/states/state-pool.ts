import { asInteger, invalid, largestIndex } from "../arguments/checks.ts";
import { checkOptions } from "../arguments/options.ts";
import { asArray } from "../arguments/reading.ts";
import { runPass, settle } from "../device/device.ts";
import type { Device } from "../device/device.ts";
import { isPlan } from "../device/plan.ts";
import type { Plan } from "../device/plan.ts";
import { DisposedError, GatedDeltaError, ShapeError } from "../errors.ts";
import type { Op } from "../ops/op.ts";
import { asDevice } from "../device/device-handle.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeDraft } from "./draft.ts";
import type { Draft, DraftOptions } from "./draft.ts";
import type { DraftRows } from "./draft-memory.ts";
import { checkExport, writeExport } from "./files/export.ts";
import type { ExportOptions } from "./files/export.ts";
import { StateFile } from "./files/load.ts";
import type { LoadOptions } from "./files/load.ts";
import { saveStates } from "./files/save.ts";
import type { SaveOptions } from "./files/save.ts";
import { opsOf } from "./pass-states.ts";
import { asPositions, asStepOptions } from "./pool-options.ts";
import type { StatePoolOptions, StepOptions } from "./pool-options.ts";
import type { PoolShape } from "./pool-shape.ts";
import { PoolTensors, asPoolShape } from "./pool-tensors.ts";
import { holdStep, leaveStep, makeStep, stepParts } from "./pool-step.ts";
import type { PoolStep } from "./pool-step.ts";
import { SlotLedger } from "./slot-ledger.ts";
import type { Holder, SlotArrays } from "./slot-ledger.ts";
import { holderOf, isHandle, makeHandle } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import { makePlaceholder } from "./step-placeholder.ts";
import type { StepPlaceholder } from "./step-placeholder.ts";

const schemas = () => require("./state-schemas.ts") as typeof import("./state-schemas.ts");

/** Opens a draft of one state whose records lie in memory that is there, and that takes no slot before its commit. */
export let openDraft: (pool: StatePool, handle: StateHandle, count: number, rows: DraftRows) => Draft;

/** Only {@link StatePool.create} constructs pools. */
let creating = false;

/**
 * The states of many sequences: for every layer, a pool of recurrent states and one of convolution states, in slots.
 *
 * A {@link StateHandle} is one sequence's state in all layers. The pool chooses the slot that holds it. {@link run}
 * takes states through one forward pass, and {@link step} is the tool beneath it; ops reach the states of layer i as
 * `states: step.layer(i)`.
 *
 * - A new state reads as zeros: its read slot is −1 at first, which ops turn into stored zeros.
 * - A fork costs no copy. It shares its parent's slot until one of them steps; that one writes to another slot, which
 *   the fork set aside. A slot that others share is not written.
 * - A state that shares nothing is stepped in place.
 *
 * @example
 * using pool = StatePool.create(device, { slots: 8, layers: 36, keyHeads: 16, valueHeads: 32, keyDim: 128, valueDim: 128, convWidth: 4 });
 * using state = pool.allocate();
 * pool.run([state], (step) => layers.map((layer, i) => gatedDeltaStep({ …, states: step.layer(i) })));
 * await device.finish();
 */
export class StatePool implements Disposable {
  /** The device whose memory it is in. */
  readonly device: Device;
  /** Number of layers. */
  readonly layers: number;
  /** Sizes and dtypes of its states. */
  readonly shape: PoolShape;
  readonly #ledger: SlotLedger;
  readonly #tensors: PoolTensors;
  /** By their length, arrays for the steps of replays, which nobody else sees: a token makes no typed array. */
  readonly #spare = new Map<number, SlotArrays>();
  #disposed = false;

  static {
    openDraft = (pool, handle, count, rows) => {
      const op = "pool.draft";
      const { own, holders } = pool.#members(op, [handle]);
      return makeDraft(pool, pool.#ledger, own, [count], pool.#ledger.beginTrial(op, holders, [0]), rows);
    };
  }

  private constructor(device: Device, options: StatePoolOptions) {
    const op = "StatePool.create";
    if (!creating) throw new GatedDeltaError("invalid-argument", { op: "StatePool", expected: "StatePool.create(…)" });
    asDevice(op, device);
    const { slots, shape } = asPoolShape(op, options);
    this.device = device;
    this.layers = shape.layers;
    this.shape = shape;
    this.#tensors = new PoolTensors(device, slots, shape);
    this.#ledger = new SlotLedger(slots);
  }

  /**
   * Allocates a pool: for each layer `[slots, valueHeads, valueDim, keyDim]` and `[slots, convChannels, convWidth − 1]`.
   *
   * @throws {ShapeError} where one layer's pool would be longer than a tensor can be (4 GiB − 16 KiB).
   */
  static create(device: Device, options: StatePoolOptions): StatePool {
    creating = true;
    try {
      return new StatePool(device, options);
    } finally {
      creating = false;
    }
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
    return this.#tensors.slotBytes;
  }

  /** Whether the pool is gone. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /**
   * The recurrent states of a layer, `[slots, valueHeads, valueDim, keyDim]`, to look at and for kernels of other libraries. Ops
   * refuse this tensor: they take `states: step.layer(i)`.
   *
   * @throws {BoundsError} for a layer that the pool does not have.
   */
  state(layer: number): Tensor {
    this.#alive("pool.state");
    return this.#tensors.find("pool.state", layer, "state");
  }

  /**
   * The convolution states of a layer, `[slots, convChannels, convWidth − 1]`, oldest first; as {@link state}.
   *
   * @throws {GatedDeltaError} where the pool was created with `conv: false`.
   */
  conv(layer: number): Tensor {
    this.#alive("pool.conv");
    return this.#tensors.find("pool.conv", layer, "conv");
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
   *
   * @throws {GatedDeltaError} of code `state` for a handle in a step; for a freed one, and one of another pool.
   */
  zero(handle: StateHandle): void {
    this.#ledger.zero("pool.zero", this.#holder("pool.zero", "handle", handle));
  }

  /**
   * Takes states through one forward pass: opens a step, runs the ops that `build` makes of it as one submission, and
   * ends the step. If anything throws, no state has changed, and what was encoded
   * since the last commit is dropped.
   *
   * @param handles one a sequence, each once.
   * @param build returns the ops of all layers; or a plan that was recorded with {@link placeholder}.
   * @param options those of {@link step}. States on the way are the {@link PoolStep.saved} of the step that `build` gets.
   * @returns the submission's ticket.
   * @throws {GatedDeltaError} of code `state` for a handle that has an open step or is invalid, and where a layer was not
   *   written, by layer and kind; of code `invalid-argument` for a `build` that returns a promise. Nothing has run then.
   * @example
   * pool.run([a, b], (step) => layers.flatMap((layer, i) => layer.decode({ hidden: x[i], out: x[i + 1], step })));
   * await device.finish();
   */
  run(handles: readonly StateHandle[], build: Plan | ((step: PoolStep) => readonly Op[]), options: StepOptions = {}): number {
    const op = "pool.run";
    const replayed = isPlan(build);
    const step = this.#step(op, handles, options, replayed);
    const { coverage, readSlots, writeSlots } = stepParts(step)!;
    try {
      coverage.requireWhole();
      holdStep(step, true);
      const ticket = replayed
        ? build.run({ step })
        : this.device[runPass](op, coverage, opsOf(op, build, step));
      holdStep(step, false);
      step.done();
      return ticket;
    } catch (error) {
      leaveStep(step);
      if (coverage.pending && !this.device.closed) this.device.discard();
      throw error;
    } finally {
      if (replayed) this.#spare.set(readSlots.length, { readSlots, writeSlots });
    }
  }

  /**
   * Opens a step: one forward pass over some states, in this order. Give each layer's ops `states: step.layer(i)`, run
   * them, then call {@link PoolStep.done}. A state has at most one open step. {@link run} does all of it.
   *
   * @param handles one a sequence, each once.
   * @throws {GatedDeltaError} of code `state` for a handle that has an open step or is invalid; nothing has changed then.
   */
  step(handles: readonly StateHandle[], options: StepOptions = {}): PoolStep {
    return this.#step("pool.step", handles, options);
  }

  /**
   * What stands for the step in a plan: record the plan's ops with `states: placeholder.layer(i)`, and replay it with
   * `plan.run({ step })` or `pool.run(handles, plan)`, for any step of as many sequences.
   *
   * @param sequences 1 or more, at most as many as the pool has slots.
   * @throws {BoundsError} for another number of sequences.
   */
  placeholder(sequences: number): StepPlaceholder {
    const op = "pool.placeholder";
    this.#alive(op);
    return makePlaceholder(this, asInteger(op, "sequences", sequences, 1, this.capacity));
  }

  /**
   * Opens a draft: one forward pass over drafted tokens, `counts[i]` of them for handle i, of which
   * {@link Draft.commit} accepts as many as turn out to be right. It counts as the handle's step until then, so that a
   * second one is an error. Records of `snapshots` take a free slot a token until the commit.
   *
   * @throws {GatedDeltaError} of code `state` for a handle in a step or an invalid one; of code `shape` for another number of
   *   counts than of handles; of code `out-of-memory` where `snapshots` have too few slots. Nothing has changed then.
   * @example
   * using draft = pool.draft([state], [4]);
   * draft.run(() => layers.flatMap((layer) => layer.forward({ hidden, out, draft })));
   * device.wait();
   * draft.commit([acceptedOf(out)]);
   */
  draft(handles: readonly StateHandle[], counts: readonly number[], options: DraftOptions = {}): Draft {
    const op = "pool.draft";
    this.#alive(op);
    const { records } = checkOptions(schemas().draftOptions, op, options);
    const { own, holders } = this.#members(op, handles);
    const numbers = asArray(op, "counts", "an array of numbers of tokens", counts, this.capacity);
    const tokens = numbers.map((n, i) => asInteger(op, `counts[${i}]`, n, 0, largestIndex));
    if (tokens.length !== own.length) {
      throw new ShapeError({ op, argument: "counts", expected: `${own.length} numbers, one a handle`, received: `${tokens.length}` });
    }
    if (tokens.reduce((sum, n) => sum + n, 0) > largestIndex) throw invalid(op, "counts", `at most ${largestIndex} tokens in all`, counts);
    const entry = records === "snapshots"
      ? this.#ledger.beginTrial(op, holders, tokens)
      : this.#ledger.begin(op, holders, false);
    return makeDraft(this, this.#ledger, own, tokens, entry);
  }

  /**
   * Writes states to a file, in this order: safetensors with the model's shape and a checksum. Waits for pending work.
   * A process killed at any moment leaves the old file or the new one. A new file has mode 600; one that is replaced is
   * a regular file, possibly through links, and keeps its mode.
   *
   * @param handles none of them in a step.
   * @throws {FileError} where the file can't be written.
   * @throws {GatedDeltaError} of code `state` for a handle in a step or an invalid one; the failure of pending work, as
   *   `device.wait`.
   */
  save(handles: readonly StateHandle[], path: string, options: SaveOptions = {}): void {
    const op = "pool.save";
    const checked = checkOptions(schemas().saveOptions, op, options);
    this.#slotsToRead(op, handles); // what is wrong with the handles comes before the failures of pending work
    this.device.wait();
    const slots = this.#slotsToRead(op, handles);
    saveStates(this.#tensors, slots, path, checked);
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
      file.readInto(this.#tensors, holders.map(({ slot }) => slot));
    } catch (error) {
      for (const holder of holders) this.#ledger.release(op, holder);
      throw error;
    }
    return holders.map((holder) => makeHandle(this, this.#ledger, holder));
  }

  /**
   * Writes states to a safetensors file in the layout of another system, one row a handle, as `layers.N.state` and
   * `layers.N.conv`. Waits for pending work. Files are replaced as {@link save} replaces them.
   *
   * | layout | recurrent state | convolution state, oldest first |
   * |---|---|---|
   * | `mlx` | `[B, valueHeads, valueDim, keyDim]` | `[B, convWidth − 1, channels]` |
   * | `hf` | `[B, valueHeads, keyDim, valueDim]` | `[B, channels, convWidth]`, or convWidth − 1 columns |
   * | `ggml` | `[B, valueHeads, valueDim, keyDim]`, heads tiled | `[B, channels, convWidth − 1]`, value heads tiled |
   *
   * @throws {FileError} and {@link GatedDeltaError} as {@link save}.
   */
  export(handles: readonly StateHandle[], path: string, options: ExportOptions): void {
    const op = "pool.export";
    const checked = checkOptions(schemas().exportOptions, op, options);
    checkExport(op, this.shape, checked);
    this.#slotsToRead(op, handles); // what is wrong with the handles comes before the failures of pending work
    this.device.wait();
    const slots = this.#slotsToRead(op, handles);
    writeExport(this.#tensors, slots, path, checked);
  }

  /** Frees the pool's memory as soon as no pending work needs it. Its handles and steps end too. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#tensors.dispose();
  }

  /** @param replayed whether a plan is all that sees the step's slots. */
  #step(op: string, handles: readonly StateHandle[], options: StepOptions, replayed = false): PoolStep {
    this.#alive(op);
    const { undoable, checkpoints } = asStepOptions(op, options);
    const { own, holders } = this.#members(op, handles);
    const positions = asPositions(op, checkpoints, own.length, this.capacity);
    const extras = positions.map((list) => list.length);
    const arrays = replayed ? this.#spare.get(own.length) : undefined;
    // Running the plan can run code of the caller's, which may begin another step.
    if (arrays !== undefined) this.#spare.delete(own.length);
    return makeStep(this, this.#ledger, own, this.#ledger.begin(op, holders, undoable, extras, arrays), positions);
  }

  /** The states of a pass, copied. A state comes once in a pass, so no pass has more of them than the pool has slots. */
  #members(op: string, handles: readonly StateHandle[]): { readonly own: readonly StateHandle[]; readonly holders: Holder[] } {
    const given = asArray(op, "handles", "an array of StateHandles", handles, this.capacity);
    const holders = given.map((handle, i) => this.#holder(op, `handles[${i}]`, handle));
    this.device[settle]();
    return { own: Object.freeze(given as StateHandle[]), holders };
  }

  #slotsToRead(op: string, handles: readonly StateHandle[]): number[] {
    this.#alive(op);
    const given = asArray(op, "handles", "an array of StateHandles", handles, largestIndex);
    return given.map((handle, i) => {
      const argument = `handles[${i}]`;
      return this.#ledger.slotToRead(op, this.#holder(op, argument, handle), argument);
    });
  }

  #holder(op: string, argument: string, handle: unknown): Holder {
    this.#alive(op);
    if (!isHandle(handle)) throw invalid(op, argument, "a StateHandle", handle);
    if (handle.pool !== this) {
      const expected = "a StateHandle of this pool";
      throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: "one of another pool" });
    }
    return holderOf(handle);
  }

  #alive(op: string): void {
    if (this.#disposed) throw new DisposedError({ op, expected: "a pool that is not disposed" });
  }
}
