import type { NormActivation, NormOrder } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link gatedRmsNorm}. Dimensions are called tokens, heads and dim. */
export interface GatedRmsNormArguments {
  /** `[tokens, heads, dim]` or `[tokens, dim]`: f32 or the dtype of `z`. */
  readonly x: Tensor;
  /** The gate, shaped as `x`: f32, f16 or bf16. */
  readonly z: Tensor;
  /** `[dim]`, any float dtype. */
  readonly weight: Tensor;
  /** Written, shaped as `x`: the dtype of `z` or f32. */
  readonly out: Tensor;
  /** Added to the mean square. @default 1e-6 */
  readonly eps?: number | undefined;
  /** Applied to `z`. @default "silu" */
  readonly activation?: NormActivation | undefined;
  /** Whether the norm or the product with `act(z)` comes first. @default "norm-then-gate" */
  readonly order?: NormOrder | undefined;
}

/**
 * RMS norm over the last dimension, gated by z: `norm-then-gate` and `gate-then-norm` are
 *
 * ```math
 * out = weight \cdot n(x) \cdot act(z), \qquad out = weight \cdot n(x \cdot act(z)),
 * \qquad n(x) = \frac{x}{\sqrt{\operatorname{mean}(x^2) + eps}}
 * ```
 *
 * Arithmetic is float32; `out` is rounded once.
 *
 * `x`, `z` and `out` may be strided views with free token and head strides; `out` must not overlap anything. Rows may
 * have any length.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(gatedRmsNorm({ x: attention, z, weight, out, activation: "sigmoid" }));
 * @see Zhang, Sennrich, [Root Mean Square Layer Normalization](https://arxiv.org/abs/1910.07467), 2019
 * @see `Qwen3NextRMSNormGated` (transformers, `modeling_qwen3_next.py`)
 * @see `RMSNormGated` (mamba, `mamba_ssm/ops/triton/layernorm_gated.py`), for gate-then-norm
 */
export function gatedRmsNorm(args: GatedRmsNormArguments): Op {
  return makeOp("gatedRmsNorm", args);
}
