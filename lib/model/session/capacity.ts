import { GatedDeltaError } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import { memoryOf } from "../model-memory.ts";

/** How many tokens one session can have while nothing else has any. */
export function capacityOf(model: LanguageModel): number {
  const { capacity, pageTokens } = memoryOf(model).pages.ledger;
  return capacity * pageTokens;
}

/**
 * Refuses what does not fit even where nothing else has a page.
 *
 * @param tokens those that are there.
 * @param more those that are to come.
 */
export function expectFits(op: string, model: LanguageModel, tokens: number, more: number): void {
  const capacity = capacityOf(model);
  if (tokens + more <= capacity) return;
  const expected = `at most ${capacity} tokens, as many as all pages of the model hold (\`pages\` of LanguageModel.load)`;
  const received = more === 0 ? `${tokens}` : `${tokens} and ${more} to come`;
  throw new GatedDeltaError("out-of-memory", { op, expected, received });
}
