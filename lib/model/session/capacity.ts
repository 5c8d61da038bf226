import { GatedDeltaError } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import { memoryOf } from "../model-memory.ts";

/** How many tokens one session can have if no other memory is in use. */
export function capacityOf(model: LanguageModel): number {
  const { capacity, pageTokens } = memoryOf(model).pages.ledger;
  return capacity * pageTokens;
}

/** How many tokens one session can have: as many as pages hold, and as the model has positions. */
export function longestOf(model: LanguageModel): number {
  return Math.min(capacityOf(model), model.config.maxPositions);
}

/**
 * Refuses tokens that would not fit even if all pages were free.
 *
 * @param tokens the number of tokens so far.
 * @param more the number of tokens to come.
 */
export function expectFits(op: string, model: LanguageModel, tokens: number, more: number): void {
  const capacity = capacityOf(model);
  if (tokens + more <= capacity) return;
  const expected = `at most ${capacity} tokens, as many as all pages of the model hold (\`pages\` of LanguageModel.load)`;
  const received = more === 0 ? `${tokens}` : `${tokens} and ${more} to come`;
  throw new GatedDeltaError("out-of-memory", { op, expected, received });
}
