/** The schemas of sampling options and of `generation_config.json`. */
import { lazily } from "../../arguments/schemas.ts";
import { biasText } from "./logit-bias.ts";
import type { LogitsProcessor, SamplingOptions } from "./settings.ts";

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
    repetitionWindow: integer(1, 2 ** 31 - 1),
    penalty: within(-100, 100),
  };
});

/** {@link SamplingOptions}, as a part of a generation's. */
export const samplingShape = lazily(({ z, callback, choice, integer }) => {
  const listOfFunctions = "an array of functions";
  const { temperature, topK, topP, minP, repetitionPenalty, repetitionWindow, penalty } = limits();
  return {
    temperature: temperature.optional(),
    topK: topK.optional(),
    topP: topP.optional(),
    minP: minP.optional(),
    repetitionPenalty: repetitionPenalty.optional(),
    repetitionWindow: repetitionWindow.optional(),
    presencePenalty: penalty.optional(),
    frequencyPenalty: penalty.optional(),
    // The entries are read where the size of the vocabulary is known.
    logitBias: z.custom<NonNullable<SamplingOptions["logitBias"]>>((value) => typeof value === "object" && value !== null, biasText).optional(),
    processors: z.array(callback<LogitsProcessor>(), listOfFunctions).default([]),
    seed: integer(0, Number.MAX_SAFE_INTEGER).optional(),
    sampling: choice("model").optional(),
  };
});

/** The values of a `generation_config.json`, all optional; the last is only in a GGUF file's metadata. */
export const generationShape = lazily(({ z }) => {
  const { temperature, topK, topP, minP, repetitionPenalty, repetitionWindow } = limits();
  return z.object({
    do_sample: z.boolean("true or false").nullish(),
    temperature: temperature.nullish(),
    top_k: topK.nullish(),
    top_p: topP.nullish(),
    min_p: minP.nullish(),
    repetition_penalty: repetitionPenalty.nullish(),
    repetition_window: repetitionWindow.optional(),
  });
});
