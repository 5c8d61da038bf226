/** Tiny random language models, as folders that transformers could have written. Usable outside of bun's tests, too. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FloatDType } from "../../lib/index.ts";
import { fileDTypes, writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { encode } from "../../lib/tensor/dtype.ts";
import { microFormats } from "../reference/micro.ts";
import { microNames, microTensors, randomMicro } from "./micro.ts";
import { Random } from "./random.ts";

/** Sizes of a tiny model. */
export interface TinyModel {
  readonly hidden: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  /** `g` for a Gated DeltaNet layer, `a` for one of attention. */
  readonly layers: string;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly rotaryDim: number;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly convWidth: number;
  readonly maxPositions: number;
  readonly tied: boolean;
  readonly dtype: FloatDType;
  /** For layers whose MLP is a mixture of experts. */
  readonly experts?: TinyExperts;
  /** Whether matrices whose rows are whole groups are in MLX's micro-scaled forms, each in a random one. */
  readonly micro?: boolean;
}

/** Sizes of a mixture of experts. */
export interface TinyExperts {
  readonly count: number;
  readonly perToken: number;
  readonly intermediate: number;
  readonly shared: number;
  readonly normalized: boolean;
  /** Layers with a dense MLP. */
  readonly dense: readonly number[];
}

/** Five experts, two of them per token, in all layers but one. */
export const tinyExperts: TinyExperts = { count: 5, perToken: 2, intermediate: 24, shared: 32, normalized: true, dense: [1] };

/** Three layers of two kinds, and sizes for which no kernel is specialised. */
export const tinyModel: TinyModel = {
  hidden: 40,
  intermediate: 56,
  vocabulary: 53,
  layers: "gag",
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  rotaryDim: 8,
  keyHeads: 1,
  valueHeads: 3,
  keyDim: 16,
  valueDim: 8,
  convWidth: 4,
  maxPositions: 2048,
  tied: false,
  dtype: "f32",
};

/** The configuration under transformers' names. */
export function tinyConfig(model: TinyModel): Record<string, unknown> {
  const { experts } = model;
  return {
    ...(experts === undefined
      ? { architectures: ["Qwen3_5ForCausalLM"], model_type: "qwen3_5_text" }
      : {
          architectures: ["Qwen3NextForCausalLM"],
          model_type: "qwen3_next",
          num_experts: experts.count,
          num_experts_per_tok: experts.perToken,
          moe_intermediate_size: experts.intermediate,
          shared_expert_intermediate_size: experts.shared,
          norm_topk_prob: experts.normalized,
          mlp_only_layers: experts.dense,
        }),
    hidden_size: model.hidden,
    intermediate_size: model.intermediate,
    vocab_size: model.vocabulary,
    num_hidden_layers: model.layers.length,
    layer_types: [...model.layers].map((type) => (type === "g" ? "linear_attention" : "full_attention")),
    num_attention_heads: model.heads,
    num_key_value_heads: model.kvHeads,
    head_dim: model.headDim,
    attention_bias: false,
    hidden_act: "silu",
    rms_norm_eps: 1e-6,
    max_position_embeddings: model.maxPositions,
    rope_parameters: { rope_type: "default", rope_theta: 10000, partial_rotary_factor: model.rotaryDim / model.headDim },
    linear_num_key_heads: model.keyHeads,
    linear_num_value_heads: model.valueHeads,
    linear_key_head_dim: model.keyDim,
    linear_value_head_dim: model.valueDim,
    linear_conv_kernel_dim: model.convWidth,
    tie_word_embeddings: model.tied,
    eos_token_id: 2,
  };
}

/** Writes the model of a seed to a folder. Weights keep a signal's size; its logits differ clearly from token to token. */
export function writeTinyModel(folder: string, model: TinyModel, seed: number): string {
  const random = new Random(seed);
  const { hidden, intermediate, vocabulary, heads, kvHeads, headDim, keyHeads, valueHeads, keyDim, valueDim, convWidth, dtype, experts } = model;
  const tensors: Record<string, TensorToWrite> = {};
  const put = (name: string, shape: readonly number[], next: () => number) => {
    const length = shape.reduce((product, size) => product * size, 1);
    const data = encode(dtype, Array.from({ length }, next));
    tensors[name] = { dtype: fileDTypes[dtype], shape, data };
  };
  const matrix = (name: string, to: number, from: number) => {
    const forms = model.micro === true ? microNames.filter((form) => from % microFormats[form].group === 0) : [];
    if (forms.length > 0) Object.assign(tensors, microTensors(name, randomMicro(random, random.pick(forms), [to, from])));
    else put(`${name}.weight`, [to, from], () => random.normal() / Math.sqrt(from));
  };
  const mlp = (at: string, wide: number) => {
    matrix(`${at}gate_proj`, wide, hidden);
    matrix(`${at}up_proj`, wide, hidden);
    matrix(`${at}down_proj`, hidden, wide);
  };
  const mixture = (at: string, { count, intermediate: wide, shared }: TinyExperts) => {
    matrix(`${at}gate`, count, hidden);
    put(`${at}experts.gate_up_proj`, [count, 2 * wide, hidden], () => random.normal() / Math.sqrt(hidden));
    put(`${at}experts.down_proj`, [count, hidden, wide], () => random.normal() / Math.sqrt(wide));
    mlp(`${at}shared_expert.`, shared);
    matrix(`${at}shared_expert_gate`, 1, hidden);
  };
  const zeroCentred = (name: string, size: number) => put(`${name}.weight`, [size], () => 0.2 * random.normal());
  if (model.micro === true) matrix("model.embed_tokens", vocabulary, hidden);
  else put("model.embed_tokens.weight", [vocabulary, hidden], () => random.normal());
  zeroCentred("model.norm", hidden);
  if (!model.tied) matrix("lm_head", vocabulary, hidden);
  for (const [i, type] of [...model.layers].entries()) {
    const at = `model.layers.${i}`;
    zeroCentred(`${at}.input_layernorm`, hidden);
    zeroCentred(`${at}.post_attention_layernorm`, hidden);
    if (experts === undefined || experts.dense.includes(i)) mlp(`${at}.mlp.`, intermediate);
    else mixture(`${at}.mlp.`, experts);
    if (type === "a") {
      matrix(`${at}.self_attn.q_proj`, 2 * heads * headDim, hidden);
      matrix(`${at}.self_attn.k_proj`, kvHeads * headDim, hidden);
      matrix(`${at}.self_attn.v_proj`, kvHeads * headDim, hidden);
      matrix(`${at}.self_attn.o_proj`, hidden, heads * headDim);
      zeroCentred(`${at}.self_attn.q_norm`, headDim);
      zeroCentred(`${at}.self_attn.k_norm`, headDim);
      continue;
    }
    const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
    const mixer = `${at}.linear_attn`;
    matrix(`${mixer}.in_proj_qkv`, channels, hidden);
    matrix(`${mixer}.in_proj_z`, valueHeads * valueDim, hidden);
    matrix(`${mixer}.in_proj_b`, valueHeads, hidden);
    matrix(`${mixer}.in_proj_a`, valueHeads, hidden);
    put(`${mixer}.conv1d.weight`, [channels, 1, convWidth], () => random.normal() / 2);
    put(`${mixer}.A_log`, [valueHeads], () => random.uniform(-2, 1));
    put(`${mixer}.dt_bias`, [valueHeads], () => random.uniform(-3, 0));
    put(`${mixer}.norm.weight`, [valueDim], () => random.uniform(0.5, 1.5));
    matrix(`${mixer}.out_proj`, hidden, valueHeads * valueDim);
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(tinyConfig(model)));
  writeSafetensors(join(folder, "model.safetensors"), tensors, { format: "pt" });
  return folder;
}
