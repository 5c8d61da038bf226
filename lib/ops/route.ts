import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link route}. Dimensions are called tokens, experts and k. */
export interface RouteArguments {
  /** `[tokens, experts]`, f32, f16 or bf16; 1 … 4096 experts. */
  readonly logits: Tensor;
  /** Written: `[tokens, k]`, id32, contiguous; k is 1 … experts. */
  readonly ids: Tensor<"id32">;
  /** Written: `[tokens, k]`, f32, contiguous. */
  readonly weights: Tensor;
  /** Whether a token's weights are divided by their sum, so that they add up to 1 (`norm_topk_prob`). */
  readonly normalize: boolean;
}

/**
 * The k best experts of each token, best first, and their shares of the softmax over all experts, in float32:
 *
 * ```math
 * p_i = \frac{e^{l_i - \max l}}{\sum_{i'} e^{l_{i'} - \max l}}, \qquad weights_j = p_{ids_j}, \qquad
 * \text{normalized} \quad weights_j = \frac{p_{ids_j}}{\sum_{j'} p_{ids_{j'}}}
 * ```
 *
 * Experts come in descending order of their logits, which is the order of an exact softmax: two logits that differ are not
 * tied, even if their shares round to the same float32. Of equal logits, such as 0 and −0, the lower id comes first. NaN
 * comes after all others, −∞ included, by id. If a row has a NaN, has ∞ as its largest logit, or has only −∞, all its
 * weights are NaN; its ids still have this order.
 *
 * A row's bits depend on its own logits only. `logits` may be a strided view with a free row stride; the outputs must not
 * overlap anything. Ids and weights stay on the device: {@link expertLinear} and {@link combineExperts} read them there.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes or memory do not fit. Nothing is written then.
 * @example
 * device.run(route({ logits, ids, weights, normalize: true })); // ids: device.tensor("id32", [tokens, 8])
 * @see `Qwen3_5MoeTopKRouter` (transformers, `modeling_qwen3_5_moe.py`)
 */
export function route(args: RouteArguments): Op {
  return makeOp("route", args);
}
