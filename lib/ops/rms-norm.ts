import type { WeightForm } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link rmsNorm}. Dimensions are called tokens, heads and dim. */
export interface RmsNormArguments {
  /** `[tokens, heads, dim]` or `[tokens, dim]`: f32, f16 or bf16. */
  readonly x: Tensor;
  /** `[dim]`, any float dtype. */
  readonly weight: Tensor;
  /** Written, shaped as `x`: the dtype of `x` or f32. */
  readonly out: Tensor;
  /** Whether rows are multiplied by the weight, or by 1 + weight as in Qwen3.5. @default "weight" */
  readonly weightForm?: WeightForm | undefined;
  /** Added to the mean square. @default 1e-6 */
  readonly eps?: number | undefined;
}

/**
 * RMS norm over the last dimension, w being the weight or 1 + weight:
 *
 * ```math
 * out = \frac{x}{\sqrt{\operatorname{mean}(x^2) + eps}} \cdot w
 * ```
 *
 * Arithmetic is float32; `out` is rounded once. {@link gatedRmsNorm} has a gate.
 *
 * `x` and `out` may be strided views with free token and head strides; `out` must not overlap anything. Rows may have
 * any length; the order of a row's sum depends only on the length.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(rmsNorm({ x: hidden, weight, out: normed, weightForm: "one-plus-weight" }));
 * @see Zhang, Sennrich, [Root Mean Square Layer Normalization](https://arxiv.org/abs/1910.07467), 2019
 * @see `Qwen3NextRMSNorm` (transformers, `modeling_qwen3_next.py`), for 1 + weight
 */
export function rmsNorm(args: RmsNormArguments): Op {
  return makeOp("rmsNorm", args);
}
