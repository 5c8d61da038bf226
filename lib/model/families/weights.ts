/** Parts of layers under the most common names. */
import type { TensorLoader } from "../../checkpoint/tensor-loader.ts";
import type { AttentionWeights, Mlp } from "../model-weights.ts";
import type { ParsedConfig } from "./family.ts";

/** An MLP whose names begin with `prefix`. */
export function denseMlp(loader: TensorLoader, prefix: string, { hiddenSize: hidden, intermediateSize: wide }: ParsedConfig): Mlp {
  return {
    kind: "dense",
    gate: loader.matrix(`${prefix}gate_proj`, wide, hidden),
    up: loader.matrix(`${prefix}up_proj`, wide, hidden),
    down: loader.matrix(`${prefix}down_proj`, hidden, wide),
  };
}

/** Attention whose names begin with `prefix`. */
export function attentionWeights(loader: TensorLoader, prefix: string, { hiddenSize: hidden, attention }: ParsedConfig): AttentionWeights {
  const { heads, kvHeads, headDim, gated, norm } = attention;
  const [queries, keys] = [heads * headDim, kvHeads * headDim];
  return {
    query: loader.matrix(`${prefix}q_proj`, gated ? 2 * queries : queries, hidden),
    key: loader.matrix(`${prefix}k_proj`, keys, hidden),
    value: loader.matrix(`${prefix}v_proj`, keys, hidden),
    output: loader.matrix(`${prefix}o_proj`, hidden, queries),
    queryNorm: loader.tensor(`${prefix}q_norm.weight`, [norm === "head" ? headDim : queries]),
    keyNorm: loader.tensor(`${prefix}k_norm.weight`, [norm === "head" ? headDim : keys]),
  };
}
