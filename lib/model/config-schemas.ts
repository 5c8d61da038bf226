/** Common parts of the schemas of models' configurations. */
import { lazily } from "../arguments/schemas.ts";
import { sizes } from "../checkpoint/mixer-schemas.ts";

/** The most experts of a layer. */
const mostExperts = 4096;

/** The rotation's base and its fraction of a head's dimensions. */
const rotary = lazily(({ z }) => {
  const baseText = "a number above 1";
  const fractionText = "a number above 0, at most 1";
  return {
    rope_theta: z.number(baseText).gt(1, baseText).max(1e30, baseText).nullish(),
    partial_rotary_factor: z.number(fractionText).gt(0, fractionText).max(1, fractionText).nullish(),
  };
});

/** `rope_parameters` or `rope_scaling`. */
export const rotation = lazily(({ z }) => {
  const { text } = sizes();
  return z.object({ rope_type: text.nullish(), type: text.nullish(), ...rotary() }, "an object").nullish();
});

/** Keys that every family reads. Those of mixers and layer types are in `lib/checkpoint/mixer-schemas.ts`. */
export const modelKeys = lazily(({ integer }) => {
  const { hidden, layers, heads, epsilon, text, flag } = sizes();
  return {
    hidden_size: hidden,
    intermediate_size: integer(1, 1 << 22),
    vocab_size: integer(1, 1 << 24),
    num_hidden_layers: layers,
    rms_norm_eps: epsilon,
    hidden_act: text.nullish(),
    tie_word_embeddings: flag,
    max_position_embeddings: integer(1, 2 ** 31 - 1),
    num_attention_heads: heads,
    attention_bias: flag,
    rope_parameters: rotation(),
    ...rotary(),
  };
});

/** Keys about experts. */
export const expertKeys = lazily(({ integer }) => {
  const [experts, width] = [integer(1, mostExperts), integer(1, 1 << 22)];
  return { num_experts: experts, num_experts_per_tok: experts, moe_intermediate_size: width, shared_expert_intermediate_size: width };
});

export const expertsSchema = lazily(({ z }) => z.object(expertKeys()));

/** Tokens that end a text. */
export const endSchema = lazily(({ z, integer }) => {
  const token = integer(0, 2 ** 31 - 1);
  return z.union([token, z.array(token)], "a token id, or an array of them").nullish();
});
