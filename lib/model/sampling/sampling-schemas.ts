/** The zod schemas of sampling options. Loaded on first use: importing zod takes 13 ms. */
import { z } from "zod";
import { choice, integer, options } from "../../arguments/schema-parts.ts";
import type { SamplingOptions } from "./settings.ts";

/** A number within limits, inclusive; with `above` the lower limit is exclusive. */
function within(least: number, most: number, above = false) {
  const expected = above ? `a number above ${least}, at most ${most}` : `a number in ${least}..${most}`;
  const number = z.number(expected).max(most, expected);
  return above ? number.gt(least, expected) : number.min(least, expected);
}

const temperature = within(0, 1e6);
const topK = integer(0, 2 ** 31 - 1);
const topP = within(0, 1, true);
const minP = within(0, 1);
const repetitionPenalty = within(0.01, 100);

/** The members of {@link samplingOptions}. */
export const samplingShape = {
  temperature: temperature.optional(),
  topK: topK.optional(),
  topP: topP.optional(),
  minP: minP.optional(),
  repetitionPenalty: repetitionPenalty.optional(),
  seed: integer(0, Number.MAX_SAFE_INTEGER).optional(),
  sampling: choice("model").optional(),
};

/** {@link SamplingOptions} */
export const samplingOptions = options<SamplingOptions>()(samplingShape);

/** The optional values of a `generation_config.json`. */
export const generationShape = z.object({
  do_sample: z.boolean("true or false").nullish(),
  temperature: temperature.nullish(),
  top_k: topK.nullish(),
  top_p: topP.nullish(),
  min_p: minP.nullish(),
  repetition_penalty: repetitionPenalty.nullish(),
});
