/** The commits of a verified draft: the accepted tokens' records, applied to the states that were verified. */
import type { HeadMap } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Indices } from "./indices.ts";
import type { LayerStates } from "./layer-states.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import type { DeltaRecords } from "./recurrence-arguments.ts";
import type { RaggedArguments } from "./state-arguments.ts";

/** Arguments that both commits share. `cuSeqlens` and `readSlots` are those of the verified call. */
export interface CommitArguments extends RaggedArguments {
  /** How many of each sequence's tokens to apply, `[sequences]`: 0..T. */
  readonly counts: Indices;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state` and the slots. */
  readonly states?: LayerStates | undefined;
}

/** Arguments of {@link commitGatedDelta}. */
export interface CommitGatedDeltaArguments extends CommitArguments {
  /** What {@link gatedDelta} kept. */
  readonly records: DeltaRecords;
  /** Read and written in place: `[slots, valueHeads, valueDim, keyDim]`, f32, f16 or bf16, contiguous. */
  readonly state?: Tensor | undefined;
  /** As in the verified call. @default "block" */
  readonly headMap?: HeadMap | undefined;
}

/** Arguments of {@link commitCausalConv1d}. */
export interface CommitCausalConv1dArguments extends CommitArguments {
  /** `[tokens, channels]`: the verified call's input, as it was. */
  readonly x: Tensor;
  /** Read and written in place: `[slots, channels, width − 1]`, x's dtype or f32, contiguous, oldest first. */
  readonly state?: Tensor | undefined;
}

/**
 * Brings states forward by the first `counts[s]` tokens of each sequence, from the records that a {@link gatedDelta} over
 * the same tokens kept: S ← a S; S ← S + δ kᵀ. With f32 states the bits are those of as many decode steps.
 *
 * The verified call reads its slots and writes none (`writeSlots` of −1); this one reads the same slots.
 *
 * Source: the recurrence of {@link gatedDelta}, with δ, k and a as they were.
 *
 * @throws {GatedDeltaError} that names the argument: here where one is missing, unknown or not of its kind; when the op is
 *   encoded where shapes, dtypes, memory or index data do not fit. Nothing is written then.
 */
export function commitGatedDelta(args: CommitGatedDeltaArguments): Op {
  return makeOp("commitGatedDelta", args);
}

/**
 * The same for the convolution, whose record is its own input: the new state is the last width − 1 rows of (old state ‖
 * the first `counts[s]` rows of x).
 *
 * Source: the state of {@link causalConv1d}.
 *
 * @throws {GatedDeltaError} that names the argument: here where one is missing, unknown or not of its kind; when the op is
 *   encoded where shapes, dtypes, memory or index data do not fit. Nothing is written then.
 */
export function commitCausalConv1d(args: CommitCausalConv1dArguments): Op {
  return makeOp("commitCausalConv1d", args);
}
