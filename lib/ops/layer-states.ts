/** The `states` argument of ops: one layer's states in a step, a draft or a placeholder of a StatePool. */
import { invalid } from "../arguments/checks.ts";
import { ShapeError } from "../errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Indices } from "./indices.ts";
import type { HeadMap } from "../native/options.ts";
import type { CheckpointArguments } from "./state-arguments.ts";
import type { Recorder } from "./recorder.ts";
import type { DeltaRecords } from "./recurrence-arguments.ts";

/** A layer's two kinds of state: the recurrence's (`state`) and the convolution's (`conv`). */
export type StateKind = "state" | "conv";

/** How an op uses a layer's states. */
export interface StateUse {
  readonly op: string;
  /** The kinds of state that it reads and writes. */
  readonly kinds: readonly StateKind[];
  /** Whether it keeps a draft's records, as ops over several tokens do. */
  readonly drafts: boolean;
  /** The convolution's input, if the op has one: a draft's record of the convolution. */
  readonly x?: Tensor | undefined;
  /** Whether the gates are per key dimension, if the op has gates. */
  readonly perKey?: boolean | undefined;
  /** Which key head serves which value head, if the op has heads. */
  readonly headMap?: HeadMap | undefined;
}

/** The tensors and slots that a `states` argument supplies. */
export interface BoundStates {
  /** `[slots, valueHeads, valueDim, keyDim]` */
  readonly state?: Tensor | undefined;
  /** `[slots, channels, width − 1]` */
  readonly convState?: Tensor | undefined;
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;
  /** Set by a draft, which fixes the number of tokens of each sequence. */
  readonly cuSeqlens?: Indices | undefined;
  readonly checkpoints?: CheckpointArguments | undefined;
  readonly snapshotSlots?: Indices | undefined;
  readonly records?: DeltaRecords | undefined;
}

/** Returns the tensors and slots for an op; throws if the pool or the pass lacks something that the op needs. */
export const bind: unique symbol = Symbol("bind");
/** Throws unless an op may be encoded with these states now. */
export const admit: unique symbol = Symbol("admit");
/** Records that the op was encoded. */
export const encoded: unique symbol = Symbol("encoded");

/** Whether a value is a {@link LayerStates}. */
let isLayerStates: (value: unknown) => value is LayerStates;

/**
 * The states of one layer in one forward pass, for the `states` argument of ops: `step.layer(i)`, `draft.layer(i)` or
 * `placeholder.layer(i)`. An op that is encoded with it counts as a write of the layer's state of its kind.
 */
export abstract class LayerStates {
  /** Distinguishes these objects from others with the same prototype. */
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

/** Refuses missing row offsets of a step of several sequences. */
export function expectOffsets(op: string, sequences: number, cuSeqlens: Indices | undefined): void {
  if (cuSeqlens !== undefined || sequences === 1) return;
  throw new ShapeError({ op, argument: "cuSeqlens", expected: `${sequences + 1} row offsets, for the ${sequences} sequences of the step`, received: "none" });
}

/** The row offsets of an op over several tokens. A draft has its own and takes no others; several sequences require them. */
export function withDraft(op: string, bound: BoundStates | undefined, cuSeqlens: Indices | undefined): Indices | undefined {
  if (bound?.cuSeqlens === undefined) {
    expectOffsets(op, bound?.readSlots.length ?? 1, cuSeqlens);
    return cuSeqlens;
  }
  if (cuSeqlens !== undefined) throw invalid(op, "cuSeqlens", "nothing: a draft has its own row offsets", cuSeqlens);
  return bound.cuSeqlens;
}

/** A `states` argument with the tensors and slots that it supplies. */
export interface GivenStates {
  readonly layer: LayerStates;
  readonly use: StateUse;
  readonly bound: BoundStates;
}

/** Takes the `states` argument of an op. */
export function bindStates(value: unknown, use: StateUse): GivenStates {
  if (!isLayerStates(value)) {
    throw invalid(use.op, "states", "the result of step.layer(i) or draft.layer(i)", value);
  }
  return { layer: value, use, bound: value[bind](use) };
}
