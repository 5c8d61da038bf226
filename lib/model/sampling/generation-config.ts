import { join } from "node:path";
import { FileError, describe } from "../../errors.ts";
import { findGguf } from "../../checkpoint/gguf/find-gguf.ts";
import { readObject } from "../text/text-files.ts";
import { readGgufSampling } from "./gguf-sampling.ts";
import { generationShape } from "./sampling-schemas.ts";
import { greedy } from "./settings.ts";
import type { SamplingSettings } from "./settings.ts";

/**
 * The sampling settings in a folder's `generation_config.json`: `temperature`, `top_k`, `top_p`, `min_p`,
 * `repetition_penalty`; or those in a GGUF file's metadata. With `do_sample: false` the choice is greedy, with the penalty.
 *
 * @returns only the settings in the file; none without a file.
 * @throws {FileError} for a file that is damaged or has invalid values.
 */
export function readModelSampling(folder: string): Partial<SamplingSettings> {
  const op = "generate";
  const gguf = findGguf(folder);
  const path = gguf ?? join(folder, "generation_config.json");
  const json = gguf === undefined ? readObject(op, path, "a generation configuration") : readGgufSampling(op, gguf);
  if (json === undefined) return {};
  const result = generationShape().safeParse(json);
  if (!result.success) {
    const { path: at, message } = result.error.issues[0]!;
    const key = String(at[0]);
    throw new FileError(path, { op, expected: `${key}: ${message}`, received: describe(json[key]) });
  }
  const { do_sample, temperature, top_k, top_p, min_p, repetition_penalty, repetition_window } = result.data;
  const repetition = {
    ...(repetition_penalty == null ? {} : { repetitionPenalty: repetition_penalty }),
    ...(gguf === undefined || repetition_window === undefined ? {} : { repetitionWindow: repetition_window }),
  };
  if (do_sample === false) return { temperature: greedy.temperature, ...repetition };
  return {
    // Sampling without a temperature means temperature 1.
    ...(temperature != null ? { temperature } : do_sample === true ? { temperature: 1 } : {}),
    ...(top_k == null ? {} : { topK: top_k }),
    ...(top_p == null ? {} : { topP: top_p }),
    ...(min_p == null ? {} : { minP: min_p }),
    ...repetition,
  };
}
