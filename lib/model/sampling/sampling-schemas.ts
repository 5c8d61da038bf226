/** The schemas of sampling options and of `generation_config.json`. */
import { lazily } from "../../arguments/schemas.ts";

const limits = lazily(({ z, integer }) => {
  /** A number within limits, which are themselves allowed unless `above`. */
  const within = (least: number, most: number, above = false) => {
    const expected = above ? `a number above ${least}, at most ${most}` : `a number in ${least}..${most}`;
    const number = z.number(expected).max(most, expected);
    return above ? number.gt(least, expected) : number.min(least, expected);
  };
  return {
    temperature: within(0, 1e6),
    topK: integer(0, 2 ** 31 - 1),
    topP: within(0, 1, true),
    minP: within(0, 1),
    repetitionPenalty: within(0.01, 100),
  };
});

/** {@link SamplingOptions}, as a part of a generation's. */
export const samplingShape = lazily(({ choice, integer }) => {
  const { temperature, topK, topP, minP, repetitionPenalty } = limits();
  return {
    temperature: temperature.optional(),
    topK: topK.optional(),
    topP: topP.optional(),
    minP: minP.optional(),
    repetitionPenalty: repetitionPenalty.optional(),
    seed: integer(0, Number.MAX_SAFE_INTEGER).optional(),
    sampling: choice("model").optional(),
  };
});

/** The values of a `generation_config.json`, each of which it may leave out. */
export const generationShape = lazily(({ z }) => {
  const { temperature, topK, topP, minP, repetitionPenalty } = limits();
  return z.object({
    do_sample: z.boolean("true or false").nullish(),
    temperature: temperature.nullish(),
    top_k: topK.nullish(),
    top_p: topP.nullish(),
    min_p: minP.nullish(),
    repetition_penalty: repetitionPenalty.nullish(),
  });
});
