import { asInteger, invalid, largestIndex } from "../arguments/checks.ts";
import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
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
import { finishStep, makeStep, stepPass } from "./pool-step.ts";
import type { PoolStep } from "./pool-step.ts";
import { SlotLedger } from "./slot-ledger.ts";
import type { Holder, SlotArrays } from "./slot-ledger.ts";
import { holderOf, isHandle, makeHandle } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import { makePlaceholder } from "./step-placeholder.ts";
import type { StepPlaceholder } from "./step-placeholder.ts";
import { draftOptions, saveOptions, poolLoadOptions, exportOptions } from "./state-schemas.ts";

/** Whether a value is a pool, and not a proxy of one or an object that only has its prototype. */
export let isStatePool: (value: unknown) => value is StatePool;

/** Opens a draft of one state with records in rows of a DraftMemory. It takes no slot before its commit. */
export let openDraft: (pool: StatePool, handle: StateHandle, count: number, rows: DraftRows) => Draft;

/**
 * The states of many sequences: for every layer, a pool of recurrent states and one of convolution states, in slots.
 *
 * A {@link StateHandle} is one sequence's state in all layers. The pool chooses its slot. {@link run} takes states through one
 * forward pass; {@link step} does the same with more control. Ops take the states of layer i as `states: step.layer(i)`.
 *
 * - A new state reads as zeros: its first read slot is −1, for which ops store zeros.
 * - A fork copies nothing. It shares its parent's slot until one of them steps, which then writes to a slot that the fork has
 *   reserved. A shared slot is not overwritten.
 * - A state that does not share its slot is stepped in place.
 *
 * @example
 * using pool = StatePool.create(device, { slots: 8, layers: 36, keyHeads: 16, valueHeads: 32, keyDim: 128, valueDim: 128, convWidth: 4 });
 * using state = pool.allocate();
 * pool.run([state], (step) => layers.map((layer, i) => gatedDeltaStep({ …, states: step.layer(i) })));
 * await device.finish();
 */
export class StatePool implements Disposable {
  /** The device of the pool's memory. */
  readonly device: Device;
  /** Number of layers. */
  readonly layers: number;
  /** Sizes and dtypes of the states. */
  readonly shape: PoolShape;
  readonly #ledger: SlotLedger;
  readonly #tensors: PoolTensors;
  /** Arrays, by length, for the steps of replays, which do not escape: reused, so that a token allocates no typed array. */
  readonly #spare = new Map<number, SlotArrays>();
  #disposed = false;

  static {
    isStatePool = (value): value is StatePool => typeof value === "object" && value !== null && #ledger in value;
    openDraft = (pool, handle, count, rows) => {
      const op = "pool.draft";
      const { members, holders } = pool.#members(op, [handle]);
      return makeDraft(pool, pool.#ledger, members, [count], pool.#ledger.beginTrial(op, holders, [0]), rows);
    };
  }

  private constructor(by: Maker, device: Device, options: StatePoolOptions) {
    const op = "StatePool.create";
    expectMaker(by, "StatePool", "StatePool.create(…)");
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
   * @throws {ShapeError} if one layer's pool would be longer than a tensor can be (4 GiB − 16 KiB).
   */
  static create(device: Device, options: StatePoolOptions): StatePool {
    return new StatePool(maker, device, options);
  }

  /** Number of slots. */
  get capacity(): number {
    return this.#ledger.capacity;
  }

  /**
   * Number of slots for {@link allocate} and {@link StateHandle.fork}: the capacity less the number of states that are not
   * freed, and less the additional slots of open steps.
   */
  get free(): number {
    return this.#ledger.free;
  }

  /** Bytes of one slot in all layers. */
  get slotBytes(): number {
    return this.#tensors.slotBytes;
  }

  /** Whether the pool was disposed. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /**
   * The recurrent states of a layer, `[slots, valueHeads, valueDim, keyDim]`, for inspection and for kernels of other
   * libraries. Ops refuse this tensor: they take `states: step.layer(i)`.
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
   * @throws {GatedDeltaError} if the pool was created with `conv: false`.
   */
  conv(layer: number): Tensor {
    this.#alive("pool.conv");
    return this.#tensors.find("pool.conv", layer, "conv");
  }

  /**
   * A new state, all zeros.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` if no slot is free.
   */
  allocate(): StateHandle {
    this.#alive("pool.allocate");
    return makeHandle(this, this.#ledger, this.#ledger.allocate("pool.allocate"));
  }

  /**
   * Sets a state to all zeros. Nothing is written now: its next step stores zeros instead of multiplying, so that even NaN in
   * the slot has no effect.
   *
   * @throws {GatedDeltaError} of code `state` for a handle in a step; for a handle that is freed or of another pool.
   */
  zero(handle: StateHandle): void {
    this.#ledger.zero("pool.zero", this.#holder("pool.zero", "handle", handle));
  }

  /**
   * Takes states through one forward pass: opens a step, runs the ops of `build` as one submission, and ends the step. If
   * anything throws, no state has changed, and the ops encoded since the last commit are discarded.
   *
   * @param handles one for each sequence, each once.
   * @param build returns the ops of all layers; or a plan that was recorded with {@link placeholder}.
   * @param options those of {@link step}. `build`'s argument has the states at checkpoints as {@link PoolStep.saved}.
   * @returns the submission's ticket.
   * @throws {GatedDeltaError} of code `state` for a handle that has an open step or is invalid, and if a layer was not written
   *   (the error names the layer and kind); of code `invalid-argument` for a `build` that returns a promise. Nothing has run then.
   * @example
   * pool.run([a, b], (step) => layers.flatMap((layer, i) => layer.decode({ hidden: x[i], out: x[i + 1], step })));
   * await device.finish();
   */
  run(handles: readonly StateHandle[], build: Plan | ((step: PoolStep) => readonly Op[]), options: StepOptions = {}): number {
    const op = "pool.run";
    const replayed = isPlan(build);
    const step = this.#step(op, handles, options, replayed);
    const { coverage, readSlots, writeSlots } = stepPass(step)!;
    try {
      coverage.requireWhole();
      const ticket = replayed
        ? build.run({ step })
        : this.device[runPass](op, coverage, opsOf(op, build, step));
      finishStep(op, step);
      return ticket;
    } catch (error) {
      step[Symbol.dispose]();
      if (coverage.pending && !this.device.closed) this.device.discard();
      throw error;
    } finally {
      if (replayed) this.#spare.set(readSlots.length, { readSlots, writeSlots });
    }
  }

  /**
   * Opens a step: one forward pass over some states, in this order. Give each layer's ops `states: step.layer(i)`, run
   * them, then call {@link PoolStep.done}. A state has at most one open step. {@link run} does all of this.
   *
   * @param handles one for each sequence, each once.
   * @throws {GatedDeltaError} of code `state` for a handle that has an open step or is invalid; nothing has changed then.
   */
  step(handles: readonly StateHandle[], options: StepOptions = {}): PoolStep {
    return this.#step("pool.step", handles, options);
  }

  /**
   * A placeholder in a plan for the step of each replay: record the plan's ops with `states: placeholder.layer(i)`, and replay
   * the plan with `plan.run({ step })` or `pool.run(handles, plan)`, for any step of the same number of sequences.
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
   * Opens a draft: one forward pass over drafted tokens, `counts[i]` of them for handle i, of which {@link Draft.commit} accepts
   * the first ones. Until then the draft counts as the handle's step: a second one is an error. Records of `snapshots` take a
   * free slot for each token until the commit.
   *
   * @throws {GatedDeltaError} of code `state` for a handle that is in a step or invalid; of code `shape` if the numbers of
   *   counts and handles differ; of code `range` if too few slots are free for `snapshots`. Nothing has changed then.
   * @example
   * using draft = pool.draft([state], [4]);
   * draft.run(() => layers.flatMap((layer) => layer.forward({ hidden, out, draft })));
   * device.wait();
   * draft.commit([acceptedOf(out)]);
   */
  draft(handles: readonly StateHandle[], counts: readonly number[], options: DraftOptions = {}): Draft {
    const op = "pool.draft";
    this.#alive(op);
    const { records } = checkOptions(draftOptions, op, options);
    const { members, holders } = this.#members(op, handles);
    const numbers = asArray(op, "counts", "an array of numbers of tokens", counts, this.capacity);
    const tokens = numbers.map((n, i) => asInteger(op, `counts[${i}]`, n, 0, largestIndex));
    if (tokens.length !== members.length) {
      throw new ShapeError({ op, argument: "counts", expected: `${members.length} numbers, one for each handle`, received: `${tokens.length}` });
    }
    if (tokens.reduce((sum, n) => sum + n, 0) > largestIndex) throw invalid(op, "counts", `at most ${largestIndex} tokens in all`, counts);
    const entry = records === "snapshots"
      ? this.#ledger.beginTrial(op, holders, tokens)
      : this.#ledger.begin(op, holders, false);
    return makeDraft(this, this.#ledger, members, tokens, entry);
  }

  /**
   * Writes states to a safetensors file, in this order, with the model's shape and a checksum. Waits for pending work.
   * A process that is killed at any moment leaves the old file or the new one. A new file has mode 600; an existing one must
   * be a regular file, possibly through links, and keeps its mode.
   *
   * @param handles none of them in a step.
   * @throws {FileError} if the file can't be written.
   * @throws {GatedDeltaError} of code `state` for a handle that is in a step or invalid; the failure of pending work, as
   *   `device.wait`.
   */
  save(handles: readonly StateHandle[], path: string, options: SaveOptions = {}): void {
    const op = "pool.save";
    const checked = checkOptions(saveOptions, op, options);
    saveStates(this.#tensors, this.#settledSlots(op, handles), path, checked);
  }

  /**
   * Reads the states of a file that {@link save} wrote into new handles, in the order in which they were saved. Waits for
   * pending work.
   *
   * @throws {FileError} for a file that is missing, damaged, of another shape or, unless `convert`, of other dtypes.
   * @throws {GatedDeltaError} of code `out-of-memory` if too few slots are free. Nothing has changed in either case.
   */
  load(path: string, options: LoadOptions = {}): StateHandle[] {
    const op = "pool.load";
    this.#alive(op);
    const { convert } = checkOptions(poolLoadOptions, op, options);
    using file = new StateFile(path, this.shape, convert);
    this.device.wait(); // pending work may still write a freed slot
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
   * Writes states to a safetensors file in the layout of another system, one row for each handle, as `layers.N.state` and
   * `layers.N.conv`. Waits for pending work. Replaces files as {@link save} does.
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
    const checked = checkOptions(exportOptions, op, options);
    checkExport(op, this.shape, checked);
    writeExport(this.#tensors, this.#settledSlots(op, handles), path, checked);
  }

  /** Frees the pool's memory when no pending work needs it. Its handles and steps end, too. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#tensors.dispose();
  }

  /** @param replayed whether only a plan sees the step's slots. */
  #step(op: string, handles: readonly StateHandle[], options: StepOptions, replayed = false): PoolStep {
    this.#alive(op);
    const { undoable, checkpoints } = asStepOptions(op, options);
    const { members, holders } = this.#members(op, handles);
    const positions = asPositions(op, checkpoints, members.length, this.capacity);
    const extras = positions.map((list) => list.length);
    const arrays = replayed ? this.#spare.get(members.length) : undefined;
    // Taken out: the plan's run can call code of the caller, which may open another step.
    if (arrays !== undefined) this.#spare.delete(members.length);
    return makeStep(this, this.#ledger, members, this.#ledger.begin(op, holders, undoable, extras, arrays), positions);
  }

  /** A copy of a pass's handles, and their holders. Each handle comes once, so there are at most as many as slots. */
  #members(op: string, handles: readonly StateHandle[]): { readonly members: readonly StateHandle[]; readonly holders: Holder[] } {
    const given = asArray(op, "handles", "an array of StateHandles", handles, this.capacity);
    const holders = given.map((handle, i) => this.#holder(op, `handles[${i}]`, handle));
    this.device[settle]();
    return { members: Object.freeze(given as StateHandle[]), holders };
  }

  /** The slots of states once pending work is done. Errors of the handles come before failures of that work. */
  #settledSlots(op: string, handles: readonly StateHandle[]): number[] {
    const slots = () => {
      this.#alive(op);
      const given = asArray(op, "handles", "an array of StateHandles", handles, largestIndex);
      return given.map((handle, i) => this.#ledger.slotToRead(op, this.#holder(op, `handles[${i}]`, handle), `handles[${i}]`));
    };
    slots();
    this.device.wait();
    return slots();
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
