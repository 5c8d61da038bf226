/** The `states` argument of ops: what a step, a draft or a placeholder of a StatePool gives for one layer. */
import { invalid } from "../arguments/checks.ts";
import { ShapeError } from "../errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Indices } from "./indices.ts";
import type { HeadMap } from "../native/options.ts";
import type { CheckpointArguments } from "./state-arguments.ts";
import type { Recorder } from "./recorder.ts";
import type { DeltaRecords } from "./recurrence-arguments.ts";

/** The two kinds of state that a layer has: the recurrence's (`state`) and the convolution's (`conv`). */
export type StateKind = "state" | "conv";

/** What an op does with a layer's states. */
export interface StateUse {
  readonly op: string;
  /** The kinds that it reads and writes. */
  readonly kinds: readonly StateKind[];
  /** Whether it keeps a draft's records, as ops over several tokens do. */
  readonly drafts: boolean;
  /** The convolution's input, where the op has one; a draft's record of the convolution. */
  readonly x?: Tensor | undefined;
  /** Whether the gates are per key dimension, where the op has gates. */
  readonly perKey?: boolean | undefined;
  /** Which key head serves which value head, where the op has heads. */
  readonly headMap?: HeadMap | undefined;
}

/** The tensors and slots that stand behind a `states` argument. */
export interface BoundStates {
  /** `[slots, valueHeads, valueDim, keyDim]` */
  readonly state?: Tensor | undefined;
  /** `[slots, channels, width − 1]` */
  readonly convState?: Tensor | undefined;
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;
  /** Of a draft, which fixes how many tokens each sequence has. */
  readonly cuSeqlens?: Indices | undefined;
  readonly checkpoints?: CheckpointArguments | undefined;
  readonly snapshotSlots?: Indices | undefined;
  readonly records?: DeltaRecords | undefined;
}

/** Gives the tensors and slots for an op; throws where the pool or the pass does not have what the op needs. */
export const bind: unique symbol = Symbol("bind");
/** Throws unless an op may be encoded with these states now. */
export const admit: unique symbol = Symbol("admit");
/** Notes that the op was encoded. */
export const encoded: unique symbol = Symbol("encoded");

/** Whether a value is a {@link LayerStates}. */
let isLayerStates: (value: unknown) => value is LayerStates;

/**
 * The states of one layer in one forward pass, as ops take them in `states`: `step.layer(i)`, `draft.layer(i)` or
 * `placeholder.layer(i)`. An op that is encoded with it counts as having written the layer's state of its kind.
 */
export abstract class LayerStates {
  /** Tells these objects from any that only have their prototype. */
  readonly #made = true;

  static {
    isLayerStates = (value): value is LayerStates => typeof value === "object" && value !== null && #made in value && value.#made;
  }

  /** @internal */
  abstract [bind](use: StateUse): BoundStates;
  /** @internal */
  abstract [admit](use: StateUse, recorder: Recorder): void;
  /** @internal */
  abstract [encoded](use: StateUse, recorder: Recorder): void;
}

/** The row offsets of an op over several tokens: a draft has its own, and takes no others; several sequences need some. */
export function withDraft(op: string, bound: BoundStates | undefined, cuSeqlens: Indices | undefined): Indices | undefined {
  if (bound?.cuSeqlens === undefined) {
    const sequences = bound === undefined ? 1 : bound.readSlots.length;
    if (cuSeqlens !== undefined || sequences === 1) return cuSeqlens;
    const expected = `${sequences + 1} row offsets, for the ${sequences} sequences of the step`;
    throw new ShapeError({ op, argument: "cuSeqlens", expected, received: "none" });
  }
  if (cuSeqlens !== undefined) throw invalid(op, "cuSeqlens", "nothing with the states of a draft, which has its own", cuSeqlens);
  return bound.cuSeqlens;
}

/** A `states` argument with what it gives. */
export interface GivenStates {
  readonly layer: LayerStates;
  readonly use: StateUse;
  readonly bound: BoundStates;
}

/** Takes the `states` argument of an op. */
export function bindStates(value: unknown, use: StateUse): GivenStates {
  if (!isLayerStates(value)) {
    throw invalid(use.op, "states", "what step.layer(i) or draft.layer(i) gives", value);
  }
  return { layer: value, use, bound: value[bind](use) };
}
