/** The zod schemas of mixers' configurations, imported with the first layer: importing zod takes 13 ms. */
import { z } from "zod";
import { integer } from "../arguments/schema-parts.ts";

const size = (largest: number) => integer(1, largest);
const heads = size(4096);
export const headDimText = "a multiple of 8 in 8..256";
export const headDim = z.int(headDimText).min(8, headDimText).max(256, headDimText).multipleOf(8, headDimText);
const convWidth = integer(2, 9);
const epsilonText = "a number in 0..1";
const boundText = "a negative number";
const bound = z.number(boundText).lt(0, boundText).nullish();
const text = z.string("a string");
const flag = z.boolean("true or false").nullish();

/** The settings of every architecture's `config.json`. Limits far above any real model keep every product of sizes exact. */
const common = {
  hidden_size: size(1 << 20),
  rms_norm_eps: z.number(epsilonText).min(0, epsilonText).max(1, epsilonText).nullish(),
  hidden_act: text.nullish(),
  num_hidden_layers: size(1 << 16).nullish(),
  layer_types: z.array(text, "an array of strings").nullish(),
};

const headSizes = {
  linear_num_key_heads: heads,
  linear_num_value_heads: heads,
  linear_key_head_dim: headDim,
  linear_value_head_dim: headDim,
  linear_conv_kernel_dim: convWidth,
};

/** Qwen3-Next and its successors. */
export const qwenSchema = z.object({
  ...common,
  ...headSizes,
  output_gate_type: text.nullish(),
  full_attention_interval: size(1 << 16).nullish(),
});

/** OLMo hybrid, whose missing sizes are derived from the others. */
export const olmoSchema = z.object({
  ...common,
  num_attention_heads: heads.nullish(),
  linear_num_key_heads: heads.nullish(),
  linear_num_value_heads: heads.nullish(),
  linear_key_head_dim: headDim.nullish(),
  linear_value_head_dim: headDim.nullish(),
  linear_conv_kernel_dim: convWidth.nullish(),
  linear_allow_neg_eigval: flag,
});

/** The nested settings of released Kimi Linear and GLM-5-next folders. */
const linearAttention = z.object(
  {
    head_dim: headDim.nullish(),
    num_heads: heads.nullish(),
    short_conv_kernel_size: convWidth.nullish(),
    kda_layers: z.array(integer(0, 1 << 16), "an array of whole numbers").nullish(),
    gate_lower_bound: bound,
    lower_bound: bound,
    safe_gate: flag,
  },
  "an object",
);

/** Kimi Linear, GLM-5-next and Bailing hybrid. Sizes may stand in several places; see `kda-config.ts`. */
export const kdaSchema = z.object({
  ...common,
  linear_num_heads: heads.nullish(),
  linear_head_dim: headDim.nullish(),
  linear_conv_kernel_dim: convWidth.nullish(),
  linear_attn_config: linearAttention.nullish(),
  linear_lower_bound: bound,
  num_attention_heads: heads.nullish(),
  head_dim: z.number("a number").nullish(),
  short_conv_kernel_size: convWidth.nullish(),
  layer_group_size: size(1 << 16).nullish(),
  kda_safe_gate: flag,
  kda_lower_bound: bound,
});
