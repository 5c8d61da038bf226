import type { LanguageModel } from "../model/language-model.ts";
import { longestOf } from "../model/session/capacity.ts";
import { Problem } from "./problem.ts";

/** A prompt that has more tokens than there is room for, where it is not known how many. */
export function tooLong(model: LanguageModel, cause?: unknown): Problem {
  return new Problem("too-long", `the prompt is too long: there is room for at most ${longestOf(model) - 1} tokens, and an answer`, { cause });
}
