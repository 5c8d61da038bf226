import type { WeightFormat } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link linear}. Dimensions are called rows, inFeatures and outFeatures. */
export interface LinearArguments {
  /** `[rows, inFeatures]`, f32, f16 or bf16. */
  readonly x: Tensor;
  /** How `weight` is stored. @default determined by the dtypes and shapes of `weight`, `scales` and `biases`; needed for u8 */
  readonly weightFormat?: WeightFormat | undefined;
  /**
   * `[outFeatures, inFeatures]`, any float dtype; or, with `scales` and `biases`, the u32 words
   * `[outFeatures, inFeatures · bits / 32]` of a quantised matrix; or, with one of ggml's types as `weightFormat`, its blocks
   * as u8, `[outFeatures, bytes of a row]`. Contiguous, at any byte.
   */
  readonly weight: Tensor;
  /** `[outFeatures, inFeatures / group]`, f32, f16 or bf16, contiguous; group is 32, 64 or 128. Given with `biases`. */
  readonly scales?: Tensor | undefined;
  /** Shaped as `scales`, and of its dtype. */
  readonly biases?: Tensor | undefined;
  /** Added to the product: `[rows, outFeatures]`, the dtype of `x` or f32. @default none */
  readonly residual?: Tensor | undefined;
  /** Written: `[rows, outFeatures]`, the dtype of `x` or f32. */
  readonly out: Tensor;
}

/**
 * A projection, for row r and output o, accumulated in float32 and rounded once:
 *
 * ```math
 * out_{r,o} = residual_{r,o} + \sum_i x_{r,i} \, w_{o,i}
 * ```
 *
 * The residual is optional.
 *
 * A quantised weight is MLX's affine form, as `mx.quantize` and the checkpoints of mlx-lm have it: a row is one
 * little-endian stream of unsigned numbers q of 2, 3, 4, 5, 6 or 8 bits, and
 *
 * ```math
 * w = q \cdot scale + bias
 * ```
 *
 * as one fused multiply-add in float32. Bits and group follow from the shapes, or are given by `weightFormat`, such as
 * `affine4-g64`; inFeatures is a multiple of the group.
 *
 * `weightFormat` may also be a type of ggml, as GGUF files have them: `q4_0`, `q4_1`, `q5_0`, `q5_1`, `q8_0`, `iq4_nl` and
 * `gguf-mxfp4` in blocks of 32 elements, `q2_k`, `q3_k`, `q4_k`, `q5_k`, `q6_k` and `iq4_xs` in blocks of 256; inFeatures is a
 * multiple of these. Each w is the float32 number that ggml's `dequantize_row_` functions give, to the bit, and a row has the
 * bits that an f32 weight of these numbers gives. A GPU may take subnormal numbers for zero: there, a block of `gguf-mxfp4` whose
 * scale is below 2^-126 is zeros.
 *
 * The order of the sum depends on inFeatures and on the form of the weight only, so a row has the same bits in any batch,
 * and with f32 outputs the residual gives the bits of {@link add}.
 *
 * `x`, `residual` and `out` may be strided views with a free row stride. `out` may be the residual itself, the same
 * elements in the same layout; otherwise it overlaps nothing.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit, or if the backend has no such kernel. Nothing is
 *   written then.
 * @example
 * device.run(linear({ x: hidden, weight: down.weight, scales: down.scales, biases: down.biases, residual, out: residual }));
 * @see `torch.nn.functional.linear` without a bias (PyTorch, `torch/nn/functional.py`)
 * @see `dequantize_row_q4_K` and the like (ggml, `src/ggml-quants.c`), and the blocks in `src/ggml-common.h`
 * @see `mlx.nn.QuantizedLinear` and `mx.quantize` (MLX, `python/mlx/nn/layers/quantized.py`)
 */
export function linear(args: LinearArguments): Op {
  return makeOp("linear", args);
}
