import type { LanguageModel } from "../model/language-model.ts";
import { longestOf } from "../model/session/capacity.ts";
import { Problem } from "./problem.ts";

/** The problem of a prompt with more tokens than there is room for, if their number is unknown. */
export function tooLong(model: LanguageModel, cause?: unknown): Problem {
  return new Problem("too-long", `the prompt is too long: there is room for at most ${longestOf(model) - 1} tokens, and an answer`, { cause });
}
