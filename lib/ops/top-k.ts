import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link topK}. Dimensions are called rows, columns and k. */
export interface TopKArguments {
  /** `[rows, columns]`, f32, f16 or bf16; 1 … 1048576 columns. */
  readonly x: Tensor;
  /** Written: `[rows, k]`, f32, contiguous; k is 1 … 128, at most the number of columns. */
  readonly values: Tensor;
  /** Written: `[rows, k]`, id32, contiguous. */
  readonly ids: Tensor<"id32">;
}

/**
 * The k largest elements of each row, such as a token's best logits, largest first, with their columns:
 *
 * ```math
 * values_{r,j} = x_{r,\,ids_{r,j}}, \qquad values_{r,j} \ge values_{r,j+1}
 * ```
 *
 * Of equal elements, such as 0 and −0, the one in the lower column comes first: so the first id of a row is its argmax, and a
 * smaller k gives the first of the same elements. NaN comes before all others, by column, so a row with a NaN has it first.
 * A value is its element unchanged.
 *
 * `x` may be a strided view with a free row stride; the outputs must not overlap anything. Results do not depend on how the
 * work is divided among threads.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes or memory do not fit. Nothing is written then.
 * @example
 * device.run(topK({ x: logits, values, ids })); // values: device.tensor("f32", [1, 40]), ids: device.tensor("id32", [1, 40])
 * @see `torch.topk` (PyTorch, `aten/src/ATen/native/Sorting.cpp`), which leaves the order of equal elements open
 */
export function topK(args: TopKArguments): Op {
  return makeOp("topK", args);
}
