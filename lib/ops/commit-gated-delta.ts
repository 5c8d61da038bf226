import type { HeadMap } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import type { DeltaRecords } from "./recurrence-arguments.ts";
import type { CommitArguments } from "./state-arguments.ts";

/** Arguments of {@link commitGatedDelta}. */
export interface CommitGatedDeltaArguments extends CommitArguments {
  /** The records that {@link gatedDelta} wrote. */
  readonly records: DeltaRecords;
  /** Read and written in place: `[slots, valueHeads, valueDim, keyDim]`, f32, f16 or bf16, contiguous; `states` may be given in place of it. */
  readonly state?: Tensor | undefined;
  /** As in the verified call. @default "block" */
  readonly headMap?: HeadMap | undefined;
}

/**
 * Advances states by the first `counts[s]` tokens of each sequence, from the records that a {@link gatedDelta} over the
 * same tokens wrote, in float32, with the state rounded once at the end:
 *
 * ```math
 * S \leftarrow a_t S + \delta_t k_t^\top, \qquad t = 1 \dots counts_s
 * ```
 *
 * With f32 states the bits are those of the same number of decode steps.
 *
 * The verified call reads its slots and writes none (`writeSlots` of −1); this one reads the same slots.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(commitGatedDelta({ records, state, cuSeqlens: [0, 5], readSlots: [3], counts: [2] }));
 * @see {@link gatedDelta}, whose recurrence this is, with the recorded δ, k and a
 * @see Yang, Kautz, Hatamizadeh, [Gated Delta Networks: Improving Mamba2 with Delta Rule](https://arxiv.org/abs/2412.06464), 2024
 */
export function commitGatedDelta(args: CommitGatedDeltaArguments): Op {
  return makeOp("commitGatedDelta", args);
}
