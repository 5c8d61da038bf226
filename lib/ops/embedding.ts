import type { WeightFormat } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Indices } from "./indices.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link embedding}. Dimensions are called rows, vocabulary and dim. */
export interface EmbeddingArguments {
  /** How `weight` is stored. @default determined by the dtypes and shapes of `weight`, `scales` and `biases`; needed if one of them is u8 */
  readonly weightFormat?: WeightFormat | undefined;
  /**
   * `[vocabulary, dim]`, any float dtype; or, with `scales`, the u32 words `[vocabulary, dim · bits / 32]` of
   * a quantised matrix; or, with one of ggml's types as `weightFormat`, its blocks as u8, `[vocabulary, bytes of a row]`; all
   * as in {@link linear}. Contiguous, at any byte.
   */
  readonly weight: Tensor;
  /**
   * `[vocabulary, dim / group]`, contiguous. Given with `biases`: f32, f16 or bf16, group 32, 64 or 128. Given alone: u8, for `mxfp4` and
   * `mxfp8` with group 32, or for `nvfp4` with group 16. @default none
   */
  readonly scales?: Tensor | undefined;
  /** Shaped as `scales`, and of its dtype. Absent if `scales` is u8. */
  readonly biases?: Tensor | undefined;
  /** Written: `[rows, dim]`, f32, f16 or bf16. */
  readonly out: Tensor;
  /** `[rows]`: 0 … vocabulary − 1, in any order and any number of times; at most 1048576 of them. @default `deviceIds` */
  readonly ids?: Indices | undefined;
  /** Given in place of `ids`: `[rows]`, id32, contiguous, as {@link topK} writes them. @default `ids` */
  readonly deviceIds?: Tensor<"id32"> | undefined;
}

/**
 * Rows of a matrix, each element rounded once to the dtype of `out`:
 *
 * ```math
 * out_r = w_{ids_r}
 * ```
 *
 * A quantised matrix is read as {@link linear} reads it, so a tied output projection takes the same tensors.
 *
 * `out` may be a strided view with a free row stride; it must not overlap anything. The ids are read, checked and copied
 * when the op is encoded, and again each time that a plan runs.
 *
 * `deviceIds` are read and checked when the op runs, where an earlier op left them. An id out of range is never followed: its row
 * becomes zeros, all ops of the submission run, and a wait for the submission throws.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit, or if the backend has no such kernel. Nothing is
 *   written then. {@link BoundsError}, for `deviceIds`, from a wait for the submission.
 * @example
 * device.run(embedding({ weight, scales, biases, ids: [1, 5, 5], out: hidden }));
 * device.run(embedding({ weight, scales, biases, deviceIds, out: hidden })); // deviceIds: the ids of topK, as device.tensor("id32", [3])
 * @see `torch.nn.functional.embedding` (PyTorch, `torch/nn/functional.py`)
 * @see `mlx.nn.QuantizedEmbedding` (MLX, `python/mlx/nn/layers/quantized.py`)
 */
export function embedding(args: EmbeddingArguments): Op {
  return makeOp("embedding", args);
}
