import type { HeadMap } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import type { DeltaRecords } from "./recurrence-arguments.ts";
import type { CommitArguments } from "./state-arguments.ts";

/** Arguments of {@link commitGatedDelta}. */
export interface CommitGatedDeltaArguments extends CommitArguments {
  /** What {@link gatedDelta} kept. */
  readonly records: DeltaRecords;
  /** Read and written in place: `[slots, valueHeads, valueDim, keyDim]`, f32, f16 or bf16, contiguous. */
  readonly state?: Tensor | undefined;
  /** As in the verified call. @default "block" */
  readonly headMap?: HeadMap | undefined;
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
