import { asInteger, invalid } from "../arguments/checks.ts";
import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { GatedDeltaError } from "../errors.ts";
import { bind } from "../ops/layer-states.ts";
import type { BoundStates, LayerStates, StateKind, StateUse } from "../ops/layer-states.ts";
import { Coverage } from "./coverage.ts";
import { PassLayer, expectNothingEncoded, expectOpen, isOpen, tensorsOf, undo } from "./pass-states.ts";
import type { StatePass } from "./pass-states.ts";
import { kindsOf } from "./pool-shape.ts";
import type { LedgerStep, SlotLedger } from "./slot-ledger.ts";
import { makeHandle, setStep } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import type { StatePool } from "./state-pool.ts";

/** The slots for states at chosen positions of an op's sequences. */
export interface Checkpoints {
  /** `[sequences + 1]`: sequence s has the entries offsets[s] up to, not including, offsets[s + 1]. */
  readonly offsets: Int32Array;
  /** Number of the sequence's tokens in this call before the checkpoint, from 0 to all of them. */
  readonly tokens: Int32Array;
  /** The slot that the state is written to. */
  readonly slots: Int32Array;
}

/** The pass of a step. */
export interface StepPass extends StatePass {
  readonly entry: LedgerStep;
  /** For each state, the numbers of tokens after which it is kept. */
  readonly positions: readonly (readonly number[])[];
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;
  readonly checkpoints: Checkpoints | undefined;
}

/** Opens a step. `positions[i]` are the numbers of tokens after which state i is kept. */
export let makeStep: (
  pool: StatePool,
  ledger: SlotLedger,
  handles: readonly StateHandle[],
  entry: LedgerStep,
  positions?: readonly (readonly number[])[],
) => PoolStep;

/** Whether a value is a {@link PoolStep}. */
export let isStep: (value: unknown) => value is PoolStep;

/** The pass of a step; undefined for any other value. */
export let stepPass: (value: unknown) => StepPass | undefined;

/** Ends a step: the written states become the content of its handles. The only other end is disposal, which undoes it. */
export let finishStep: (op: string, step: PoolStep) => void;

/**
 * One forward pass over some states of a {@link StatePool}. Give each layer's ops `states: step.layer(i)`; an op that is
 * encoded with them counts as having written the layer's state. End the step with {@link done} or {@link abort}.
 *
 * Disposal (`using`) undoes a step that is still open, and never throws. Its encoded ops can no longer be committed. If none
 * of its work has run, every state is unchanged; states that its work has overwritten become invalid.
 */
export class PoolStep implements Disposable {
  /** The states, in the order of the sequences. */
  readonly handles: readonly StateHandle[];
  readonly #pass: StepPass;
  readonly #layers: LayerStates[] = [];
  #saved: readonly (readonly StateHandle[])[] | undefined;

  private constructor(by: Maker, handles: readonly StateHandle[], pass: StepPass) {
    expectMaker(by, "PoolStep", "pool.step(…)");
    this.handles = handles;
    this.#pass = pass;
    for (const handle of handles) setStep(handle, this);
    Object.freeze(this);
  }

  static {
    makeStep = (pool, ledger, handles, entry, positions = []) => {
      const { readSlots, writeSlots } = entry;
      const coverage = new Coverage("step", pool.layers, kindsOf(pool.shape), handles.length > 0);
      const checkpoints = checkpointsOf(positions, entry.extraSlots);
      const pass: StepPass = { name: "step", pool, ledger, entry, coverage, positions, readSlots, writeSlots, checkpoints };
      entry.undo = () => undo(pass);
      return new PoolStep(maker, handles, pass);
    };
    isStep = (value): value is PoolStep => typeof value === "object" && value !== null && #pass in value;
    stepPass = (value) => (isStep(value) ? value.#pass : undefined);
    finishStep = (op, step) => {
      const { pool, ledger, entry, coverage } = step.#pass;
      expectOpen(op, step.#pass);
      coverage.expectComplete(op, true);
      const holders = ledger.finish(entry, coverage.outcome);
      step.#saved = holders.map((list) => list.map((holder) => makeHandle(pool, ledger, holder)));
      step.#releaseHandles();
    };
  }

  /** The pool of the states. */
  get pool(): StatePool {
    return this.#pass.pool;
  }

  /** Whether the step has not ended yet. */
  get open(): boolean {
    return isOpen(this.#pass);
  }

  /** The slot that each sequence reads, −1 for zeros; a copy, for kernels of other libraries. */
  get readSlots(): Int32Array {
    return this.#pass.readSlots.slice();
  }

  /** The slot that each sequence writes, all distinct; a copy, for kernels of other libraries. */
  get writeSlots(): Int32Array {
    return this.#pass.writeSlots.slice();
  }

  /** The slots for checkpoints, undefined if there are none; a copy, for kernels of other libraries. */
  get checkpoints(): Checkpoints | undefined {
    const { checkpoints } = this.#pass;
    if (checkpoints === undefined) return undefined;
    const { offsets, tokens, slots } = checkpoints;
    return { offsets: offsets.slice(), tokens: tokens.slice(), slots: slots.slice() };
  }

  /**
   * The states of one of the pool's layers, for the `states` of its ops.
   *
   * @throws {BoundsError} for a layer that the pool does not have.
   */
  layer(layer: number): LayerStates {
    const op = "step.layer";
    expectOpen(op, this.#pass);
    const index = asInteger(op, "layer", layer, 0, this.#pass.pool.layers - 1);
    return (this.#layers[index] ??= new StepLayer(this.#pass, index));
  }

  /**
   * Records that a kernel of another library has written a layer's states of one kind: the final ones to
   * {@link writeSlots}, and the checkpoints to the slots of {@link checkpoints}.
   *
   * @throws {GatedDeltaError} of code `state` if they have already been written.
   */
  wrote(layer: number, kind: StateKind): void {
    const op = "step.wrote";
    const { pool, coverage } = this.#pass;
    expectOpen(op, this.#pass);
    const index = asInteger(op, "layer", layer, 0, pool.layers - 1);
    if (kind !== "state" && kind !== "conv") throw invalid(op, "kind", `"state" | "conv"`, kind);
    coverage.wrote(op, { layer: index, kinds: [kind] });
  }

  /**
   * Makes the written states the content of the handles. The ops must have been committed but need not have finished: later
   * ops on the device run after them.
   *
   * @throws {GatedDeltaError} of code `state` if a layer was not written (the error names the layer and kind), and in the
   *   callback of `pool.run`, which ends its step itself. The step stays open.
   */
  done(): void {
    const op = "step.done";
    this.#expectCallerEnds(op);
    finishStep(op, this);
  }

  /**
   * The states at the checkpoints: for each handle, in the order of its given positions. The caller frees them.
   *
   * @throws {GatedDeltaError} of code `state` before {@link done}.
   */
  get saved(): readonly (readonly StateHandle[])[] {
    if (this.#saved !== undefined) return this.#saved;
    throw new GatedDeltaError("state", { op: "step.saved", message: "no checkpoints before done(): call it first" });
  }

  /**
   * Undoes the step: every state is unchanged.
   *
   * @throws {GatedDeltaError} of code `state` if ops of the step are encoded but not committed (call `device.discard()`
   *   first), if its work has run and overwrites states in place (call {@link done}, or open such steps with `undoable`),
   *   and in the callback of `pool.run`. The step stays open.
   */
  abort(): void {
    const op = "step.abort";
    const { entry, coverage } = this.#pass;
    this.#expectCallerEnds(op);
    expectNothingEncoded(op, this.#pass);
    if (entry.overwrites && coverage.ran) {
      const message =
        "work of this step has been committed and overwrites states in place: " +
        "call done(), or open such steps with { undoable: true }";
      throw new GatedDeltaError("state", { op, message });
    }
    this[Symbol.dispose]();
  }

  /** Undoes the step if it is open; never throws. */
  [Symbol.dispose](): void {
    if (!this.open) return;
    this.#pass.entry.undo!();
    this.#releaseHandles();
  }

  /** Throws if the step has ended, and in the callback of `pool.run`: the errors of that call concern an open step. */
  #expectCallerEnds(op: string): void {
    expectOpen(op, this.#pass);
    if (this.#pass.coverage.whole) throw new GatedDeltaError("state", { op, message: "pool.run ends the step of its callback itself" });
  }

  #releaseHandles(): void {
    for (const handle of this.handles) setStep(handle, undefined);
  }
}

class StepLayer extends PassLayer {
  declare protected readonly pass: StepPass;

  [bind](use: StateUse): BoundStates {
    const { pass, layer } = this;
    expectOpen(use.op, pass, "states");
    const { pool, readSlots, writeSlots, checkpoints } = pass;
    if (checkpoints !== undefined && !use.drafts) {
      const message = "this step keeps checkpoints, and only ops over several tokens write them";
      throw new GatedDeltaError("invalid-argument", { op: use.op, argument: "states", message });
    }
    return { ...tensorsOf(pool, layer, use), readSlots, writeSlots, checkpoints };
  }
}

function checkpointsOf(positions: readonly (readonly number[])[], slots: readonly (readonly number[])[]): Checkpoints | undefined {
  if (slots.every((list) => list.length === 0)) return undefined;
  const offsets = new Int32Array(positions.length + 1);
  for (const [i, list] of positions.entries()) offsets[i + 1] = offsets[i]! + list.length;
  return { offsets, tokens: Int32Array.from(positions.flat()), slots: Int32Array.from(slots.flat()) };
}
