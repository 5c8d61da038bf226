import type { ActivationForm, Products, WeightFormat } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link expertLinear}. Dimensions are called tokens, k, experts, inFeatures and outFeatures. */
export interface ExpertLinearArguments {
  /** `[tokens, inFeatures]`, one row for all experts of a token, or `[tokens, k, inFeatures]`, a row for each; f32, f16 or bf16. */
  readonly x: Tensor;
  /** How `weight` is stored. @default determined by the dtypes and shapes of `weight`, `scales` and `biases`; needed if one of them is u8 */
  readonly weightFormat?: WeightFormat | undefined;
  /**
   * `[experts, outFeatures, inFeatures]`, any float dtype; or, with `scales`, the u32 words
   * `[experts, outFeatures, inFeatures · bits / 32]` of quantised matrices; or, with one of ggml's types as `weightFormat`, their
   * blocks as u8, `[experts, outFeatures, bytes of a row]`. Contiguous, at any byte; 1 … 4096 experts.
   */
  readonly weight: Tensor;
  /**
   * `[experts, outFeatures, inFeatures / group]`, contiguous. Given with `biases`: f32, f16 or bf16, group 32, 64 or 128. Given alone: u8,
   * for `mxfp4` and `mxfp8` with group 32, or for `nvfp4` with group 16. @default none
   */
  readonly scales?: Tensor | undefined;
  /** Shaped as `scales`, and of its dtype. Absent if `scales` is u8. */
  readonly biases?: Tensor | undefined;
  /** `[tokens, k]`, id32, contiguous: each 0 … experts − 1, in any order and any number of times. */
  readonly ids: Tensor<"id32">;
  /** Written: `[tokens, k, outFeatures]`, the dtype of `x` or f32. */
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
 * {@link linear} with the matrices of each token's experts, accumulated in float32 and rounded once:
 *
 * ```math
 * out_{t,j,o} = \sum_i x_{t,j,i} \, w_{ids_{t,j},o,i}
 * ```
 *
 * Each row has the bits that `linear` with the same `products` gives for that row of `x` and that expert's matrix, so they depend neither on the other
 * tokens nor on the other experts. Each matrix that any row uses is read once, whatever the number of its rows.
 *
 * `activations: "int8"` rounds rows of `x` as `linear` does.
 *
 * The ids are read and checked when the op runs, where {@link route} left them. An id that is not an expert's makes its
 * row of `out` zeros, and fails the submission with a {@link BoundsError} once all of its ops have run.
 *
 * `x` and `out` may be strided views with free token and rank strides. `out` must not overlap anything. Gate and up projections
 * in one matrix give an `out` whose halves {@link siluMul} takes as they are: `out.narrow(2, 0, size)`, `out.narrow(2, size, size)`.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes or memory do not fit. Nothing is written then. {@link BoundsError}, for ids, from a
 *   wait for the submission.
 * @example
 * device.run(expertLinear({ x, weight: down.weight, scales: down.scales, biases: down.biases, ids, out }));
 * @see `Qwen3_5MoeExperts` (transformers, `modeling_qwen3_5_moe.py`)
 * @see `mlx.nn.QuantizedSwitchLinear` (mlx-lm, `mlx_lm/models/switch_layers.py`)
 */
export function expertLinear(args: ExpertLinearArguments): Op {
  return makeOp("expertLinear", args);
}
