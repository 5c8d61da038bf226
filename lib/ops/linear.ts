import type { ActivationForm, Products, WeightFormat } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link linear}. Dimensions are called rows, inFeatures and outFeatures. */
export interface LinearArguments {
  /** `[rows, inFeatures]`, f32, f16 or bf16. */
  readonly x: Tensor;
  /** How `weight` is stored. @default determined by the dtypes and shapes of `weight`, `scales` and `biases`; needed if one of them is u8 */
  readonly weightFormat?: WeightFormat | undefined;
  /**
   * `[outFeatures, inFeatures]`, any float dtype; or, with `scales`, the u32 words
   * `[outFeatures, inFeatures · bits / 32]` of a quantised matrix; or, with one of ggml's types as `weightFormat`, its blocks
   * as u8, `[outFeatures, bytes of a row]`. Contiguous, at any byte.
   */
  readonly weight: Tensor;
  /**
   * `[outFeatures, inFeatures / group]`, contiguous. Given with `biases`: f32, f16 or bf16, group 32, 64 or 128. Given alone: u8, for
   * `mxfp4` and `mxfp8` with group 32, or for `nvfp4` with group 16. @default none
   */
  readonly scales?: Tensor | undefined;
  /** Shaped as `scales`, and of its dtype. Absent if `scales` is u8. */
  readonly biases?: Tensor | undefined;
  /** Added to the product: `[rows, outFeatures]`, the dtype of `x` or f32. @default none */
  readonly residual?: Tensor | undefined;
  /** Written: `[rows, outFeatures]`, the dtype of `x` or f32. */
  readonly out: Tensor;
  /**
   * `"int8"`: rows of `x` are rounded to 8 bits, group by group, if `weight` is packed; the CPU only. @default "exact"
   */
  readonly activations?: ActivationForm | undefined;
  /**
   * `matrix` uses the GPU's matrix units, for rows of a prompt; the bits differ from those of `rows`. A CPU has no such units.
   * @default "rows"
   */
  readonly products?: Products | undefined;
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
 * A quantised weight has MLX's affine form, as in `mx.quantize` and mlx-lm's checkpoints: a row is one little-endian
 * stream of unsigned numbers q of 2, 3, 4, 5, 6 or 8 bits, and
 *
 * ```math
 * w = q \cdot scale + bias
 * ```
 *
 * as one fused multiply-add in float32. Bits and group follow from the shapes, or are given by `weightFormat`, such as
 * `affine4-g64`; inFeatures is a multiple of the group.
 *
 * `weightFormat` may also be one of MLX's micro-scaled forms, words of small floats with a one-byte scale for each group:
 * `mxfp4` (E2M1), `mxfp8` (E4M3), `nvfp4` (E2M1), where w is the float times the scale, to the bit of float32. A scale s of the
 * first two is the power of two 2^(s - 127), and 255 is infinity, as in MLX (NaN in the standard). A scale of `nvfp4` is E4M3, in
 * which all ones except for the sign is NaN.
 *
 * `weightFormat` may also be a ggml type, as in GGUF files: `q4_0`, `q4_1`, `q5_0`, `q5_1`, `q8_0`, `iq4_nl` and
 * `gguf-mxfp4` in blocks of 32 elements, `q2_k`, `q3_k`, `q4_k`, `q5_k`, `q6_k` and `iq4_xs` in blocks of 256; inFeatures is a
 * multiple of the block. Each w is the float32 number that ggml's `dequantize_row_` functions give, to the bit, and a row has the
 * bits that an f32 weight of these numbers gives.
 *
 * A GPU may treat subnormal numbers as zero: there, a block of `gguf-mxfp4`, `mxfp4` or `mxfp8` whose scale is below 2^-126 is zeros,
 * and so are subnormal products with any scale.
 *
 * With `activations: "int8"`, on the CPU, each row of `x` is rounded to 8 bits if the weight is packed. A group of columns, as long as the
 * weight's own (16, 32, 64 or 128), has the scale s = max |x| / 127 and integers q = x / s, rounded to nearest even; for a weight a n + b
 * with integers n,
 *
 * ```math
 * out_{r,o} = residual_{r,o} + \sum_{g} \Big( a_{o,g} \, s_{r,g} \sum_{i \in g} q_{r,i} \, n_{o,i} + b_{o,g} \, s_{r,g} \sum_{i \in g} q_{r,i} \Big)
 * ```
 *
 * The inner sums are exact integers. The outer one goes from the first group to the last, and each of its products and sums is rounded to
 * float32; where there is a b, the product with s and its addition to the last term are rounded once, as a fused multiply-add. The residual is added last. The
 * bits are the same for every instruction set. A row with NaN or an infinity gives NaN. Float weights and `mxfp8` are multiplied exactly.
 *
 * The order of the sum depends on inFeatures, on the form of the weight and on `products` only, so a row has the same bits in
 * any batch, and with f32 outputs the residual gives the bits of {@link add}. With `products: "matrix"` this holds if a GPU's
 * matrix units treat all places of a matrix alike, which has not been confirmed on a Mac.
 *
 * `x`, `residual` and `out` may be strided views with a free row stride. `out` may be the residual itself, the same
 * elements in the same layout; otherwise it must not overlap anything.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit, or if the backend has no such kernel. Nothing is
 *   written then.
 * @example
 * device.run(linear({ x: hidden, weight: down.weight, scales: down.scales, biases: down.biases, residual, out: residual }));
 * @see `torch.nn.functional.linear` without a bias (PyTorch, `torch/nn/functional.py`)
 * @see `dequantize_row_q4_K` and the like (ggml, `src/ggml-quants.c`), and the blocks in `src/ggml-common.h`
 * @see `mlx.nn.QuantizedLinear` and `mx.quantize` (MLX, `python/mlx/nn/layers/quantized.py`; the micro-scaled forms' numbers:
 *   `mlx/backend/cpu/quantized.cpp`)
 */
export function linear(args: LinearArguments): Op {
  return makeOp("linear", args);
}
