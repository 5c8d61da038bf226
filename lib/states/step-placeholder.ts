import { asInteger, invalid } from "../arguments/checks.ts";
import { GatedDeltaError, ShapeError } from "../errors.ts";
import { LayerStates, admit, bind, encoded } from "../ops/layer-states.ts";
import type { BoundStates, StateUse } from "../ops/layer-states.ts";
import type { LayerUse, Placeholder, Recorder } from "../ops/recorder.ts";
import { expectOpen, tensorsOf } from "./pass-states.ts";
import { stepParts } from "./pool-step.ts";
import type { StatePool } from "./state-pool.ts";

/** Makes a placeholder. */
export let makePlaceholder: (pool: StatePool, sequences: number) => StepPlaceholder;

/** Whether a value is a {@link StepPlaceholder}. */
export let isPlaceholder: (value: unknown) => value is StepPlaceholder;

let making = false;

/**
 * What stands in a plan for the step of each of its replays: record the plan's ops with `states: placeholder.layer(i)`,
 * then run it with `plan.run({ step })`.
 */
export class StepPlaceholder {
  /** The pool whose states the plan's ops read and write. */
  readonly pool: StatePool;
  /** Number of sequences of each step. */
  readonly sequences: number;
  readonly #layers: PlaceholderLayer[] = [];
  readonly #slots: PlaceholderSlots;

  private constructor(pool: StatePool, sequences: number) {
    if (!making) {
      throw new GatedDeltaError("invalid-argument", { op: "StepPlaceholder", expected: "pool.placeholder(sequences)" });
    }
    this.pool = pool;
    this.sequences = sequences;
    this.#slots = new PlaceholderSlots(pool, sequences);
    Object.freeze(this);
  }

  static {
    isPlaceholder = (value): value is StepPlaceholder => typeof value === "object" && value !== null && #slots in value;
    makePlaceholder = (pool, sequences) => {
      making = true;
      try {
        return new StepPlaceholder(pool, sequences);
      } finally {
        making = false;
      }
    };
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

/** The slots of the step of the replay that runs. The plan's index data are copies of these arrays. */
class PlaceholderSlots implements Placeholder {
  readonly pool: StatePool;
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;

  constructor(pool: StatePool, sequences: number) {
    this.pool = pool;
    // Slots that pass the checks while the plan is recorded.
    this.readSlots = new Int32Array(sequences).fill(-1);
    this.writeSlots = Int32Array.from({ length: sequences }, (_, i) => i);
  }

  enter(op: string, step: unknown, uses: readonly LayerUse[]) {
    const parts = stepParts(step);
    if (parts === undefined) throw invalid(op, "step", "the step that this replay reads and writes, of pool.step(…)", step);
    const { pool, coverage, readSlots, writeSlots, checkpoints } = parts;
    if (pool !== this.pool) {
      const expected = "a step of the pool that the plan was recorded for";
      throw new GatedDeltaError("invalid-argument", { op, argument: "step", expected, received: "a step of another pool" });
    }
    expectOpen(op, parts, "step");
    if (readSlots.length !== this.readSlots.length) {
      const expected = `${this.readSlots.length} sequences, as the placeholder has`;
      throw new ShapeError({ op, argument: "step", expected, received: `${readSlots.length}` });
    }
    if (checkpoints !== undefined) {
      const expected = "a step without checkpoints: a plan's ops keep none";
      throw new GatedDeltaError("invalid-argument", { op, argument: "step", expected, received: "one with checkpoints" });
    }
    for (const use of uses) coverage.expectUnwritten(op, use);
    coverage.expectWhole(op, uses);
    this.readSlots.set(readSlots);
    this.writeSlots.set(writeSlots);
    return {
      participant: coverage,
      expectOpen() {
        expectOpen(op, parts, "step");
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
      const expected = "the states of a step or draft: a placeholder stands for a step in plans";
      throw new GatedDeltaError("invalid-argument", { op, argument: "states", expected, received: "those of a placeholder" });
    }
    if (planStates.placeholder !== undefined && planStates.placeholder !== this.#slots) {
      const expected = "those of the plan's first placeholder";
      throw new GatedDeltaError("invalid-argument", { op, argument: "states", expected, received: "those of a second one" });
    }
    const twice = planStates.uses.some((use) => use.layer === this.#layer && kinds.some((kind) => use.kinds.includes(kind)));
    if (twice) {
      const message = `this plan writes layer ${this.#layer} twice: a step writes each layer's state once`;
      throw new GatedDeltaError("state", { op, argument: "states", message });
    }
  }

  [encoded]({ kinds }: StateUse, { planStates }: Recorder): void {
    planStates!.placeholder = this.#slots;
    planStates!.uses.push({ layer: this.#layer, kinds });
  }
}
