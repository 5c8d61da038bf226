import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import type { CommitArguments } from "./state-arguments.ts";

/** Arguments of {@link commitCausalConv1d}. */
export interface CommitCausalConv1dArguments extends CommitArguments {
  /** `[tokens, channels]`, f32, f16 or bf16: the verified call's input, unchanged. */
  readonly x: Tensor;
  /** Read and written in place: `[slots, channels, width − 1]`, x's dtype or f32, contiguous, oldest first; `states` may be given in place of it. */
  readonly state?: Tensor | undefined;
}

/**
 * {@link commitGatedDelta} for the convolution, whose record is its own input. For sequence s with n = `counts[s]`, and rows
 * of (old state ‖ x) counted from 0, the new state is, without rounding,
 *
 * ```math
 * state_j \leftarrow (state \,\|\, x)_{n + j}, \qquad 0 \le j < width - 1
 * ```
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(commitCausalConv1d({ x, state, cuSeqlens: [0, 5], readSlots: [3], counts: [2] }));
 * @see {@link causalConv1d}, whose state this is; Gu, Dao, [Mamba](https://arxiv.org/abs/2312.00752), 2023
 */
export function commitCausalConv1d(args: CommitCausalConv1dArguments): Op {
  return makeOp("commitCausalConv1d", args);
}
