import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link linear}. Dimensions are called rows, inFeatures and outFeatures. */
export interface LinearArguments {
  /** `[rows, inFeatures]`, f32, f16 or bf16. */
  readonly x: Tensor;
  /** `[outFeatures, inFeatures]`, any float dtype, contiguous. */
  readonly weight: Tensor;
  /** Written: `[rows, outFeatures]`, the dtype of `x` or f32. */
  readonly out: Tensor;
}

/**
 * A plain projection: out[r, o] = Σᵢ x[r, i] · weight[o, i], accumulated in float32 and rounded once.
 *
 * The order of the sum depends on inFeatures only, so a row has the same bits in any batch. That makes this kernel
 * simple rather than fast; bring quantised or tuned products of your own where speed matters.
 *
 * `x` and `out` may be strided views with a free row stride; `out` overlaps nothing.
 *
 * Source: `torch.nn.functional.linear` without a bias.
 *
 * @throws {GatedDeltaError} that names the argument: here where one is missing, unknown or not of its kind; when the op is
 *   encoded where shapes, dtypes, memory or index data do not fit. Nothing is written then.
 */
export function linear(args: LinearArguments): Op {
  return makeOp("linear", args);
}
