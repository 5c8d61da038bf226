import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import type { CommitArguments } from "./state-arguments.ts";

/** Arguments of {@link commitCausalConv1d}. */
export interface CommitCausalConv1dArguments extends CommitArguments {
  /** `[tokens, channels]`: the verified call's input, as it was. */
  readonly x: Tensor;
  /** Read and written in place: `[slots, channels, width − 1]`, x's dtype or f32, contiguous, oldest first. */
  readonly state?: Tensor | undefined;
}

/**
 * {@link commitGatedDelta} for the convolution, whose record is its own input: the new state is the last width − 1 rows of (old state ‖
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
