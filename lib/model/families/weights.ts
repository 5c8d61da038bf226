/** Parts of layers under the most common names. */
import { FileError } from "../../errors.ts";
import { splitRows } from "../../checkpoint/interleaved.ts";
import type { TensorLoader } from "../../checkpoint/tensor-loader.ts";
import type { ExpertsConfig } from "../model-config.ts";
import type { AttentionWeights, DenseMlp, Mixture, Mlp } from "../model-weights.ts";
import type { ParsedConfig } from "./family.ts";

/** The MLP of a layer, whose names begin with `prefix`: a mixture if the configuration says so. */
export function mlpWeights(loader: TensorLoader, prefix: string, { hiddenSize, intermediateSize, experts }: ParsedConfig, layer: number): Mlp {
  return experts?.layers.includes(layer) ? mixture(loader, prefix, hiddenSize, experts) : denseMlp(loader, prefix, hiddenSize, intermediateSize);
}

/** A dense MLP. */
export function denseMlp(loader: TensorLoader, prefix: string, hidden: number, wide: number): DenseMlp {
  return {
    kind: "dense",
    gate: loader.matrix(`${prefix}gate_proj`, wide, hidden),
    up: loader.matrix(`${prefix}up_proj`, wide, hidden),
    down: loader.matrix(`${prefix}down_proj`, hidden, wide),
  };
}

function mixture(loader: TensorLoader, prefix: string, hidden: number, experts: ExpertsConfig): Mixture {
  return {
    kind: "experts",
    router: loader.matrix(`${prefix}gate`, experts.count, hidden),
    ...expertWeights(loader, prefix, hidden, experts),
    shared: denseMlp(loader, `${prefix}shared_expert.`, hidden, experts.sharedIntermediateSize),
    sharedGate: loader.matrix(`${prefix}shared_expert_gate`, 1, hidden),
  };
}

/**
 * The experts, in one of three forms: two tensors for all, as released (transformers, `Qwen3_5MoeExperts`); separate matrices, as
 * transformers saves them (`conversion_mapping.py`, `qwen2_moe`); or three tensors for all, as mlx-lm converts them
 * (`models/switch_layers.py`, `SwitchGLU`).
 */
function expertWeights(loader: TensorLoader, prefix: string, hidden: number, { count, intermediateSize: wide }: ExpertsConfig): Pick<Mixture, "gateUp" | "down"> {
  const { source, op } = loader;
  const names = source.namesWithPrefix(`${prefix}experts.`);
  const fused = [`${prefix}experts.gate_up_proj`, `${prefix}experts.down_proj`] as const;
  const stacked = `${prefix}switch_mlp.`;
  const forms = {
    fused: names.find((name) => name === fused[0] || name === fused[1]),
    each: names.find((name) => /^\d/.test(name.slice(`${prefix}experts.`.length))),
    stacked: source.namesWithPrefix(stacked)[0],
  };
  const found = Object.values(forms).filter((name) => name !== undefined);
  if (found.length !== 1) {
    const expected = `experts in one form: ${fused[0]}, ${prefix}experts.0.gate_proj.weight or ${stacked}gate_proj.weight`;
    throw new FileError(source.path, { op, expected, received: found.join(" and ") || "none of them" });
  }
  if (forms.fused !== undefined) {
    return { gateUp: [loader.floatMatrices(fused[0], [count, 2 * wide, hidden])], down: loader.floatMatrices(fused[1], [count, hidden, wide]) };
  }
  if (forms.stacked !== undefined) {
    // Some GGUF files have each expert's gate and then its up in one tensor.
    const both = source.has(`${stacked}gate_up_proj.weight`);
    return {
      gateUp: both ? [loader.matrices(`${stacked}gate_up_proj`, count, 2 * wide, hidden)] : ["gate_proj", "up_proj"].map((part) => loader.matrices(stacked + part, count, wide, hidden)),
      down: loader.matrices(`${stacked}down_proj`, count, hidden, wide),
    };
  }
  const modules = (...parts: readonly string[]) => Array.from({ length: count }, (_, expert) => parts.map((part) => `${prefix}experts.${expert}.${part}`));
  // Only separate matrices can stay where they are in the files.
  const gateUp = loader.maps ? [modules("gate_proj"), modules("up_proj")] : [modules("gate_proj", "up_proj")];
  return { gateUp: gateUp.map((each) => loader.joined(each, wide, hidden)), down: loader.joined(modules("down_proj"), hidden, wide) };
}

/** Attention whose names begin with `prefix`. */
export function attentionWeights(loader: TensorLoader, prefix: string, { hiddenSize: hidden, attention }: ParsedConfig): AttentionWeights {
  const { heads, kvHeads, headDim, gated, norm } = attention;
  const [queries, keys] = [heads * headDim, kvHeads * headDim];
  const rows = [gated ? 2 * queries : queries, keys, keys];
  const joint = `${prefix}qkv_proj`; // in some GGUF files
  const [query, key, value] = loader.source.has(`${joint}.weight`)
    ? splitRows(rows).map((part) => loader.gathered(joint, rows.reduce((all, one) => all + one), hidden, part))
    : ["q_proj", "k_proj", "v_proj"].map((part, i) => loader.matrix(prefix + part, rows[i]!, hidden));
  return {
    query: query!,
    key: key!,
    value: value!,
    output: loader.matrix(`${prefix}o_proj`, hidden, queries),
    queryNorm: loader.tensor(`${prefix}q_norm.weight`, [norm === "head" ? headDim : queries]),
    keyNorm: loader.tensor(`${prefix}k_norm.weight`, [norm === "head" ? headDim : keys]),
  };
}
