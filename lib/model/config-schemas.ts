/** Common parts of the zod schemas of models' configurations. Imported with the first model, because importing zod takes 13 ms. */

import { z } from "zod";
import { integer } from "../arguments/schema-parts.ts";

const size = (largest: number) => integer(1, largest);
const text = z.string("a string");
const flag = z.boolean("true or false").nullish();
const fractionText = "a number above 0, at most 1";
const fraction = z.number(fractionText).gt(0, fractionText).max(1, fractionText).nullish();
const baseText = "a number above 1";
/** A rotation's base. */
const base = z.number(baseText).gt(1, baseText).max(1e30, baseText).nullish();
const epsilonText = "a number in 0..1";
export const heads = size(4096);
/** Lengths of heads. */
export { headDim, headDimText } from "../checkpoint/mixer-schemas.ts";

export const rotation = z.object(
  { rope_type: text.nullish(), type: text.nullish(), rope_theta: base, partial_rotary_factor: fraction },
  "an object",
).nullish();

/** Keys that every family reads. Those of mixers and layer types are in `lib/checkpoint/mixer-schemas.ts`. */
export const modelKeys = {
  hidden_size: size(1 << 20),
  intermediate_size: size(1 << 22),
  vocab_size: size(1 << 24),
  num_hidden_layers: size(1 << 16),
  rms_norm_eps: z.number(epsilonText).min(0, epsilonText).max(1, epsilonText).nullish(),
  hidden_act: text.nullish(),
  tie_word_embeddings: flag,
  max_position_embeddings: size(2 ** 31 - 1),
  num_attention_heads: heads,
  attention_bias: flag,
  rope_parameters: rotation,
  rope_theta: base,
  partial_rotary_factor: fraction,
};

/** Tokens that end a text. */
export const endSchema = z.union([integer(0, 2 ** 31 - 1), z.array(integer(0, 2 ** 31 - 1))], "a token id, or an array of them").nullish();
