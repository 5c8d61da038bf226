import type { Products, WeightForm } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Indices } from "./indices.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link attention}. Dimensions are called tokens, heads, kvHeads, headDim, pages and pageTokens. */
export interface AttentionArguments {
  /** `[tokens, heads, headDim]`, f32, f16 or bf16: the activation dtype. headDim is a multiple of 8 in 8..256. */
  readonly query: Tensor;
  /** `[tokens, kvHeads, headDim]`, the activation dtype. heads is a multiple of kvHeads. */
  readonly key: Tensor;
  /** `[tokens, kvHeads, headDim]`, the activation dtype. */
  readonly value: Tensor;
  /** `[tokens, heads, headDim]`, the activation dtype: the output is multiplied by its sigmoid. @default none */
  readonly gate?: Tensor | undefined;
  /** `[headDim]`, any float dtype: each query row goes through an RMS norm with this weight. @default none */
  readonly queryNorm?: Tensor | undefined;
  /** The same for key rows. @default none */
  readonly keyNorm?: Tensor | undefined;
  /**
   * Read and written: `[pages, kvHeads, pageTokens, headDim]`, f32, f16 or bf16, contiguous. Keys are stored normalised
   * and rotated, rounded once, and always read from here.
   */
  readonly keyPages: Tensor;
  /** Read and written: the values' pages, of the shape and dtype of `keyPages`. */
  readonly valuePages: Tensor;
  /** Written: `[tokens, heads, headDim]`, the activation dtype or f32. */
  readonly out: Tensor;
  /** Row offsets `[sequences + 1]`, from 0, not decreasing, the last at most tokens. @default [0, tokens]: one sequence */
  readonly cuSeqlens?: Indices | undefined;
  /**
   * `[sequences · pagesPerSequence]`, one row after another for each sequence: entry p of a row is the page of tokens
   * p · pageTokens and up. Entries beyond those for pastTokens and the new tokens are ignored.
   */
  readonly pageTable: Indices;
  /** `[sequences]`: how many tokens of each sequence the pages already hold. */
  readonly pastTokens: Indices;
  /** `[tokens]`: the position that each token is rotated by, 0 and up. @default pastTokens[s] + index in the call */
  readonly positions?: Indices | undefined;
  /** How many elements of a head are rotated, from the first on: even, at most headDim. @default 0 */
  readonly rotaryDim?: number | undefined;
  /** The rotation's base, above 0. @default 10000 */
  readonly ropeTheta?: number | undefined;
  /** Whether `queryNorm` and `keyNorm` hold the norms' weights, or the weights minus 1, as in Qwen3.5. @default "weight" */
  readonly weightForm?: WeightForm | undefined;
  /**
   * `matrix`: the GPU's matrix units compute scores and values, for rows of a prompt; the bits differ from those of `rows`. A CPU
   * has no such units. A row's sum then includes zero times the values of later tokens of its span.
   * @default "rows"
   */
  readonly products?: Products | undefined;
  /** Added to the mean square. @default 1e-6 */
  readonly normEps?: number | undefined;
  /** Factor of the queries. @default headDim^−½ */
  readonly scale?: number | undefined;
}

/**
 * Causal attention of grouped query heads over paged keys and values, to which the op adds those of its tokens: per row
 * and head, with j over the sequence's tokens up to the row's own,
 *
 * ```math
 * \begin{aligned}
 * q &= scale \cdot rotate(norm(query)) \\
 * k &= rotate(norm(key)) \\
 * out &= \sigma(gate) \sum_j \operatorname{softmax}_j(q \cdot k_j) \, v_j
 * \end{aligned}
 * ```
 *
 * New keys k are stored to `keyPages` and values to `valuePages`, rounded once, and read from there. Query head h takes key
 * head ⌊h / (heads / kvHeads)⌋. `rotate` turns element i < rotaryDim / 2 and element
 * i + rotaryDim / 2 by position · ropeTheta^(−2i / rotaryDim); cosines and sines are computed in float64 and rounded once,
 * so that positions of any size are exact. Token t of sequence s lies at row t mod pageTokens of page
 * `pageTable[s, ⌊t / pageTokens⌋]`.
 *
 * A row's bits depend only on its own query, keys and values: not on threads, other sequences, the split of a prompt into
 * calls, or the size and place of pages. A page that a sequence writes to may be used only once in the whole call; pages
 * that are only read may be shared. To fork a sequence, share its full pages and copy its last one ({@link copySlots},
 * with a page as a slot).
 *
 * `query`, `key`, `value`, `gate` and `out` may be strided views with free token and head strides, so that query and gate
 * can be halves of one projection's heads; `out` and the pages must not overlap anything.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(attention({ query, key, value, keyPages, valuePages, out, pageTable: [3, 1], pastTokens: [20] }));
 * @see `Qwen3_5Attention` (transformers, `modeling_qwen3_5.py`)
 * @see Milakov, Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867), 2018
 * @see Su et al., [RoFormer: Enhanced Transformer with Rotary Position Embedding](https://arxiv.org/abs/2104.09864), 2021
 * @see Kwon et al., [Efficient Memory Management for Large Language Model Serving with PagedAttention](https://arxiv.org/abs/2309.06180), 2023
 */
export function attention(args: AttentionArguments): Op {
  return makeOp("attention", args);
}
