/** The schemas of mixers' configurations. */
import { lazily } from "../arguments/schemas.ts";

export const headDimText = "a multiple of 8 in 8..256";

/** Parts of the schemas of mixers and models. Limits far above any real model keep every product of sizes exact. */
export const sizes = lazily(({ z, integer }) => {
  const epsilonText = "a number in 0..1";
  return {
    hidden: integer(1, 1 << 20),
    layers: integer(1, 1 << 16),
    heads: integer(1, 4096),
    headDim: z.int(headDimText).min(8, headDimText).max(256, headDimText).multipleOf(8, headDimText),
    convWidth: integer(2, 9),
    epsilon: z.number(epsilonText).min(0, epsilonText).max(1, epsilonText).nullish(),
    text: z.string("a string"),
    flag: z.boolean("true or false").nullish(),
  };
});

/** The settings of every architecture's `config.json`. */
const common = lazily(({ z }) => {
  const { hidden, epsilon, text, layers } = sizes();
  return {
    hidden_size: hidden,
    rms_norm_eps: epsilon,
    hidden_act: text.nullish(),
    num_hidden_layers: layers.nullish(),
    layer_types: z.array(text, "an array of strings").nullish(),
  };
});

/** Qwen3-Next and its successors. */
export const qwenSchema = lazily(({ z }) => {
  const { heads, headDim, convWidth, text, layers } = sizes();
  return z.object({
    ...common(),
    linear_num_key_heads: heads,
    linear_num_value_heads: heads,
    linear_key_head_dim: headDim,
    linear_value_head_dim: headDim,
    linear_conv_kernel_dim: convWidth,
    output_gate_type: text.nullish(),
    full_attention_interval: layers.nullish(),
    linear_value_head_order: z.enum(["block", "tiled"]).nullish(),
  });
});

/** OLMo hybrid, whose missing sizes are derived from the others. */
export const olmoSchema = lazily(({ z }) => {
  const { heads, headDim, convWidth, flag } = sizes();
  return z.object({
    ...common(),
    num_attention_heads: heads.nullish(),
    linear_num_key_heads: heads.nullish(),
    linear_num_value_heads: heads.nullish(),
    linear_key_head_dim: headDim.nullish(),
    linear_value_head_dim: headDim.nullish(),
    linear_conv_kernel_dim: convWidth.nullish(),
    linear_allow_neg_eigval: flag,
  });
});

/** Kimi Linear, GLM-5-next and Bailing hybrid. Sizes may stand in several places; see `kda-config.ts`. */
export const kdaSchema = lazily(({ z, integer }) => {
  const { heads, headDim, convWidth, flag, layers } = sizes();
  const boundText = "a negative number";
  const bound = z.number(boundText).lt(0, boundText).nullish();
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
  return z.object({
    ...common(),
    linear_num_heads: heads.nullish(),
    linear_head_dim: headDim.nullish(),
    linear_conv_kernel_dim: convWidth.nullish(),
    linear_attn_config: linearAttention.nullish(),
    linear_lower_bound: bound,
    num_attention_heads: heads.nullish(),
    head_dim: z.number("a number").nullish(),
    short_conv_kernel_size: convWidth.nullish(),
    layer_group_size: layers.nullish(),
    kda_safe_gate: flag,
    kda_lower_bound: bound,
  });
});
