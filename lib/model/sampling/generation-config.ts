import { join } from "node:path";
import { FileError, describe } from "../../errors.ts";
import { readObject } from "../text/text-files.ts";
import { generationShape } from "./sampling-schemas.ts";
import { greedy } from "./settings.ts";
import type { SamplingSettings } from "./settings.ts";

/**
 * What a folder's `generation_config.json` says of sampling: `temperature`, `top_k`, `top_p`, `min_p`,
 * `repetition_penalty`. With `do_sample: false` it is the greedy choice, with the penalty.
 *
 * @returns nothing of what the file leaves out, and nothing at all where there is none.
 * @throws {FileError} for a file that is damaged, or says what is no such value.
 */
export function readModelSampling(folder: string): Partial<SamplingSettings> {
  const op = "generate";
  const path = join(folder, "generation_config.json");
  const json = readObject(op, path, "a generation configuration");
  if (json === undefined) return {};
  const result = generationShape().safeParse(json);
  if (!result.success) {
    const { path: at, message } = result.error.issues[0]!;
    const key = String(at[0]);
    throw new FileError(path, { op, expected: `${key}: ${message}`, received: describe(json[key]) });
  }
  const { do_sample, temperature, top_k, top_p, min_p, repetition_penalty } = result.data;
  const repetition = repetition_penalty == null ? {} : { repetitionPenalty: repetition_penalty };
  if (do_sample === false) return { temperature: greedy.temperature, ...repetition };
  return {
    // A file that asks for sampling and gives no temperature means that of the probabilities themselves.
    ...(temperature != null ? { temperature } : do_sample === true ? { temperature: 1 } : {}),
    ...(top_k == null ? {} : { topK: top_k }),
    ...(top_p == null ? {} : { topP: top_p }),
    ...(min_p == null ? {} : { minP: min_p }),
    ...repetition,
  };
}
