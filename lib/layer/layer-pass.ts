/** Finds the states of a layer in a pass. */

import { invalid } from "../arguments/checks.ts";
import { GatedDeltaError, ShapeError } from "../errors.ts";
import type { LayerStates } from "../ops/layer-states.ts";
import { isDraft } from "../states/draft.ts";
import { isStep } from "../states/pool-step.ts";
import type { PoolStep } from "../states/pool-step.ts";
import type { StatePool } from "../states/state-pool.ts";
import { isPlaceholder } from "../states/step-placeholder.ts";
import type { StepPlaceholder } from "../states/step-placeholder.ts";

const op = "GatedDeltaNet";

/** A layer, and the layer of a pool that holds its states. */
interface InPool {
  readonly poolLayer: number | undefined;
}

/** A layer's states in a step or a draft. */
export function statesOf(layer: InPool, method: string, step: unknown, draft: unknown): LayerStates {
  const name = `${op}.${method}`;
  if (draft !== undefined) {
    if (step !== undefined) throw new GatedDeltaError("invalid-argument", { op: name, argument: "draft", message: "`draft` cannot be combined with `step`" });
    if (!isDraft(draft)) throw invalid(name, "draft", "a draft of pool.draft(…)", draft);
    return draft.layer(layerOf(layer, method, "draft", draft.pool));
  }
  if (!isStep(step) && !isPlaceholder(step)) {
    throw invalid(name, "step", "a step of pool.step(…) or a placeholder of pool.placeholder(…)", step);
  }
  return step.layer(layerOf(layer, method, "step", step.pool));
}

/** Refuses a step of more or fewer sequences than rows. */
export function expectRows(name: string, step: PoolStep | StepPlaceholder, rows: number): void {
  const count = sequencesOf(step);
  if (count !== rows) throw new ShapeError({ op: name, argument: "step", expected: `as many sequences as rows, ${rows}`, received: `${count}` });
}

/** The number of a step's sequences. */
export function sequencesOf(step: PoolStep | StepPlaceholder): number {
  return isStep(step) ? step.handles.length : step.sequences;
}

/** The index of a layer's states in a pool. */
export function layerOf({ poolLayer }: InPool, method: string, argument: string, pool: StatePool): number {
  const layer = poolLayer ?? (pool.layers === 1 ? 0 : undefined);
  if (layer !== undefined && layer < pool.layers) return layer;
  const expected = layer === undefined
    ? "a pool of one layer, or a layer loaded with the option poolLayer"
    : `a pool of at least ${layer + 1} layers, since poolLayer is ${layer}`;
  throw new GatedDeltaError("invalid-argument", { op: `${op}.${method}`, argument, expected, received: `one of ${pool.layers}` });
}
