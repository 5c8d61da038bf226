import { asInteger, invalid } from "../arguments/checks.ts";
import { GatedDeltaError } from "../errors.ts";
import { bind } from "../ops/layer-states.ts";
import type { BoundStates, LayerStates, StateKind, StateUse } from "../ops/layer-states.ts";
import { Coverage } from "./coverage.ts";
import { PassLayer, expectNothingEncoded, expectOpen, isOpen, leave, tensorsOf } from "./pass-states.ts";
import type { StatePass } from "./pass-states.ts";
import { kindsOf } from "./pool-shape.ts";
import type { LedgerStep, SlotLedger } from "./slot-ledger.ts";
import { makeHandle, setStep } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import type { StatePool } from "./state-pool.ts";

/** Where an op writes states on the way through its sequences. */
export interface Checkpoints {
  /** `[sequences + 1]`: sequence s has the entries offsets[s] up to, not including, offsets[s + 1]. */
  readonly offsets: Int32Array;
  /** After how many of the sequence's tokens in this call, 0 and all of them included. */
  readonly tokens: Int32Array;
  /** The slot that the state then goes to. */
  readonly slots: Int32Array;
}

/** A step's parts, as this room's other modules use them. */
export interface StepParts extends StatePass {
  readonly entry: LedgerStep;
  /** The tokens after which each state is kept. */
  readonly positions: readonly (readonly number[])[];
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;
  readonly checkpoints: Checkpoints | undefined;
}

/** Opens a step. `positions[i]` are the tokens after which state i is kept. */
export let makeStep: (
  pool: StatePool,
  ledger: SlotLedger,
  handles: readonly StateHandle[],
  entry: LedgerStep,
  positions?: readonly (readonly number[])[],
) => PoolStep;

/** Whether a value is a {@link PoolStep}. */
export let isStep: (value: unknown) => value is PoolStep;

/** A step's parts; undefined for any other value. */
export let stepParts: (value: unknown) => StepParts | undefined;

/** Whether a run of the pool's has the step: it ends it, and nobody else can. */
export let holdStep: (step: PoolStep, held: boolean) => void;

/** Ends a step without an error, whatever state it is in: see {@link leave}. */
export let leaveStep: (step: PoolStep) => void;

let makingStep = false;

/**
 * One forward pass over some states of a {@link StatePool}. Give each layer's ops `states: step.layer(i)`; an op that is
 * encoded so counts as having written the layer's state. The step ends with {@link done} or {@link abort}.
 *
 * `using` leaves a step that was not ended, without an error: where nothing has run, every state is what it was. Ops of
 * it that are encoded can't be committed any more. States that work has overwritten are invalid from then on.
 */
export class PoolStep implements Disposable {
  /** The states, in the order of the sequences. */
  readonly handles: readonly StateHandle[];
  readonly #parts: StepParts;
  readonly #layers: LayerStates[] = [];
  #saved: readonly (readonly StateHandle[])[] | undefined;
  #held = false;

  private constructor(handles: readonly StateHandle[], parts: StepParts) {
    if (!makingStep) throw new GatedDeltaError("invalid-argument", { op: "PoolStep", expected: "pool.step(…)" });
    this.handles = handles;
    this.#parts = parts;
    for (const handle of handles) setStep(handle, this);
    Object.freeze(this);
  }

  static {
    makeStep = (pool, ledger, handles, entry, positions = []) => {
      const { readSlots, writeSlots } = entry;
      const coverage = new Coverage("step", pool.layers, kindsOf(pool.shape), handles.length > 0);
      const checkpoints = checkpointsOf(positions, entry.extraSlots);
      entry.collected = () => coverage.leave();
      makingStep = true;
      try {
        return new PoolStep(handles, { name: "step", pool, ledger, entry, coverage, positions, readSlots, writeSlots, checkpoints });
      } finally {
        makingStep = false;
      }
    };
    isStep = (value): value is PoolStep => typeof value === "object" && value !== null && #parts in value;
    stepParts = (value) => (isStep(value) ? value.#parts : undefined);
    holdStep = (step, held) => void (step.#held = held);
    leaveStep = (step) => {
      if (!step.open) return;
      leave(step.#parts);
      step.#end();
    };
  }

  /** The pool whose states these are. */
  get pool(): StatePool {
    return this.#parts.pool;
  }

  /** Whether neither {@link done} nor {@link abort} was called yet. */
  get open(): boolean {
    return isOpen(this.#parts);
  }

  /** The slot that each sequence reads, −1 for zeros; a copy, for kernels of other libraries. */
  get readSlots(): Int32Array {
    return this.#parts.readSlots.slice();
  }

  /** The slot that each sequence writes, all distinct; a copy, for kernels of other libraries. */
  get writeSlots(): Int32Array {
    return this.#parts.writeSlots.slice();
  }

  /** Where the states go that were asked for on the way, undefined where none were; a copy, for kernels of other libraries. */
  get checkpoints(): Checkpoints | undefined {
    const { checkpoints } = this.#parts;
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
    expectOpen(op, this.#parts);
    const index = asInteger(op, "layer", layer, 0, this.#parts.pool.layers - 1);
    return (this.#layers[index] ??= new StepLayer(this.#parts, index));
  }

  /**
   * Notes that a kernel of somebody else's has written a layer's states of one kind: the final ones to
   * {@link writeSlots}, and those on the way as {@link checkpoints} says.
   *
   * @throws {GatedDeltaError} of code `state` for what was written before.
   */
  wrote(layer: number, kind: StateKind): void {
    const op = "step.wrote";
    const { pool, coverage } = this.#parts;
    expectOpen(op, this.#parts);
    const index = asInteger(op, "layer", layer, 0, pool.layers - 1);
    if (kind !== "state" && kind !== "conv") throw invalid(op, "kind", `"state" | "conv"`, kind);
    coverage.wrote(op, { layer: index, kinds: [kind] });
  }

  /**
   * Makes what was written the content of each state. The ops must have been committed, not finished: later ops on the
   * device run after them.
   *
   * @throws {GatedDeltaError} of code `state` where a layer was not written, by layer and kind: its slots hold whatever
   *   was there before; and inside the callback of `pool.run`, which ends its step itself. The step stays open.
   */
  done(): void {
    const op = "step.done";
    const { pool, ledger, entry, coverage } = this.#parts;
    expectOpen(op, this.#parts);
    this.#expectOwn(op);
    coverage.expectComplete(op, true);
    const holders = ledger.finish(entry, coverage.outcome);
    this.#saved = holders.map((list) => list.map((holder) => makeHandle(pool, ledger, holder)));
    this.#end();
  }

  /**
   * The states on the way, for each handle in the order that its positions were given. The caller frees them.
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
   * @throws {GatedDeltaError} of code `state` where ops of it are encoded and not committed (call `device.discard()`
   *   first), or where work has run that writes over states in place (call {@link done}, or begin such steps with
   *   `undoable`); and inside the callback of `pool.run`. The step stays open.
   */
  abort(): void {
    const op = "step.abort";
    const { ledger, entry, coverage } = this.#parts;
    expectOpen(op, this.#parts);
    this.#expectOwn(op);
    expectNothingEncoded(op, this.#parts);
    if (entry.overwrites && coverage.ran) {
      const message =
        "work of this step has been committed, and it writes over states that are not shared: " +
        "call done(), or begin such steps with { undoable: true }";
      throw new GatedDeltaError("state", { op, message });
    }
    ledger.abort(entry);
    this.#end();
  }

  /** Leaves the step, if it is open; never throws. */
  [Symbol.dispose](): void {
    leaveStep(this);
  }

  /** Throws inside the callback of `pool.run`: what that throws must not be about a step that is over. */
  #expectOwn(op: string): void {
    if (this.#held) throw new GatedDeltaError("state", { op, message: "pool.run, whose callback this is, ends the step" });
  }

  #end(): void {
    for (const handle of this.handles) setStep(handle, undefined);
  }
}

class StepLayer extends PassLayer {
  declare protected readonly pass: StepParts;

  [bind](use: StateUse): BoundStates {
    const { pass, layer } = this;
    expectOpen(use.op, pass, "states");
    const { pool, readSlots, writeSlots, checkpoints } = pass;
    if (checkpoints !== undefined && !use.drafts) {
      const message = "this step keeps checkpoints, which only ops over several tokens write";
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
