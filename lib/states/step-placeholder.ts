import { asInteger, invalid } from "../arguments/checks.ts";
import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { GatedDeltaError, ShapeError } from "../errors.ts";
import { LayerStates, admit, bind, encoded } from "../ops/layer-states.ts";
import type { BoundStates, StateUse } from "../ops/layer-states.ts";
import type { LayerUse, Placeholder, Recorder } from "../ops/recorder.ts";
import { expectOpen, tensorsOf } from "./pass-states.ts";
import { stepPass } from "./pool-step.ts";
import type { StatePool } from "./state-pool.ts";

/** Makes a placeholder. */
export let makePlaceholder: (pool: StatePool, sequences: number) => StepPlaceholder;

/** Whether a value is a {@link StepPlaceholder}. */
export let isPlaceholder: (value: unknown) => value is StepPlaceholder;

/**
 * A placeholder in a plan for the step of each replay: record the plan's ops with `states: placeholder.layer(i)`, then run the
 * plan with `plan.run({ step })`.
 */
export class StepPlaceholder {
  /** The pool of the states that the plan's ops read and write. */
  readonly pool: StatePool;
  /** Number of sequences in each step. */
  readonly sequences: number;
  readonly #layers: PlaceholderLayer[] = [];
  readonly #slots: PlaceholderSlots;

  private constructor(by: Maker, pool: StatePool, sequences: number) {
    expectMaker(by, "StepPlaceholder", "pool.placeholder(sequences)");
    this.pool = pool;
    this.sequences = sequences;
    this.#slots = new PlaceholderSlots(pool, sequences);
    Object.freeze(this);
  }

  static {
    isPlaceholder = (value): value is StepPlaceholder => typeof value === "object" && value !== null && #slots in value;
    makePlaceholder = (pool, sequences) => new StepPlaceholder(maker, pool, sequences);
  }

  /**
   * The states of one of the pool's layers, for the `states` of a plan's ops.
   *
   * @throws {BoundsError} for a layer that the pool does not have.
   */
  layer(layer: number): LayerStates {
    const index = asInteger("placeholder.layer", "layer", layer, 0, this.pool.layers - 1);
    return (this.#layers[index] ??= new PlaceholderLayer(this.#slots, index));
  }
}

/** The slots of the current replay's step. The plan copies its index data from these arrays. */
class PlaceholderSlots implements Placeholder {
  readonly pool: StatePool;
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;

  constructor(pool: StatePool, sequences: number) {
    this.pool = pool;
    // Valid slots, for the checks while the plan is recorded.
    this.readSlots = new Int32Array(sequences).fill(-1);
    this.writeSlots = Int32Array.from({ length: sequences }, (_, i) => i);
  }

  enter(op: string, step: unknown, uses: readonly LayerUse[]) {
    const pass = stepPass(step);
    if (pass === undefined) throw invalid(op, "step", "a step for this replay, of pool.step(…)", step);
    const { pool, coverage, readSlots, writeSlots, checkpoints } = pass;
    if (pool !== this.pool) {
      const expected = "a step of the plan's pool";
      throw new GatedDeltaError("invalid-argument", { op, argument: "step", expected, received: "a step of another pool" });
    }
    expectOpen(op, pass, "step");
    if (readSlots.length !== this.readSlots.length) {
      const expected = `${this.readSlots.length} sequences, as in the placeholder`;
      throw new ShapeError({ op, argument: "step", expected, received: `${readSlots.length}` });
    }
    if (checkpoints !== undefined) {
      const expected = "a step without checkpoints, which plans do not write";
      throw new GatedDeltaError("invalid-argument", { op, argument: "step", expected, received: "one with checkpoints" });
    }
    for (const use of uses) coverage.expectUnwritten(op, use);
    coverage.expectWhole(op, uses);
    this.readSlots.set(readSlots);
    this.writeSlots.set(writeSlots);
    return {
      participant: coverage,
      expectOpen() {
        expectOpen(op, pass, "step");
      },
      wrote() {
        for (const use of uses) coverage.encode(op, use);
      },
    };
  }
}

class PlaceholderLayer extends LayerStates {
  readonly #slots: PlaceholderSlots;
  readonly #layer: number;

  constructor(slots: PlaceholderSlots, layer: number) {
    super();
    this.#slots = slots;
    this.#layer = layer;
  }

  [bind](use: StateUse): BoundStates {
    const { pool, readSlots, writeSlots } = this.#slots;
    return { ...tensorsOf(pool, this.#layer, use), readSlots, writeSlots };
  }

  [admit]({ op, kinds }: StateUse, { planStates }: Recorder): void {
    if (planStates === undefined) {
      const expected = "the states of a step or draft: placeholders are for plans";
      throw new GatedDeltaError("invalid-argument", { op, argument: "states", expected, received: "the states of a placeholder" });
    }
    if (planStates.placeholder !== undefined && planStates.placeholder !== this.#slots) {
      const expected = "the states of the plan's first placeholder";
      throw new GatedDeltaError("invalid-argument", { op, argument: "states", expected, received: "those of another one" });
    }
    const twice = planStates.uses.some((use) => use.layer === this.#layer && kinds.some((kind) => use.kinds.includes(kind)));
    if (twice) {
      const message = `this plan writes layer ${this.#layer} twice: write each layer once`;
      throw new GatedDeltaError("state", { op, argument: "states", message });
    }
  }

  [encoded]({ kinds }: StateUse, { planStates }: Recorder): void {
    planStates!.placeholder = this.#slots;
    planStates!.uses.push({ layer: this.#layer, kinds });
  }
}
