/** Answers and rows that sessions gave, which are compared with cold runs after a schedule: no other model runs meanwhile. */
import { bitsEqual, relRms } from "../../lib/cli/verify/compare.ts";
import type { GenerateOptions } from "../../lib/model.ts";
import { ColdTexts } from "../support/cold-texts.ts";
import { plain } from "../support/roles.ts";
import type { Pressed } from "./models.ts";

/** An answer, or the result of a text's last token. */
export type Claim = { readonly who: string; readonly tokens: readonly number[] } & (
  | { readonly kind: "answer"; readonly given: readonly number[]; readonly options: GenerateOptions; readonly logprobs: readonly number[] }
  | { readonly kind: "logits" | "hidden"; readonly row: Float32Array }
);

/**
 * How far results of 16-bit states may be from those of the cold run, which rounds the states in other places: relRms of rows, and
 * the largest difference in the logarithm of a probability.
 */
const rounded = { row: 0.2, logprob: 0.5 };

/** @throws at the first claim that differs from the cold run. */
export async function compareClaims(claims: readonly Claim[], { form, exact }: Pressed, count: (what: string, by: number) => void): Promise<void> {
  const cold = new ColdTexts(form.cold);
  const length = (claim: Claim) => claim.tokens.length + (claim.kind === "answer" ? claim.given.length : 0);
  // Of texts with the same beginning, only the longest one is read.
  for (const claim of claims.toSorted((a, b) => length(b) - length(a))) {
    try {
      if (claim.kind !== "answer") await compareRow(claim, cold, exact);
      else if (exact) await cold.expectAnswer(claim.tokens, claim.given, claim.options);
      await compareLogprobs(claim, cold, exact);
    } catch (error) {
      throw new Error(`${claim.who}: ${(error as Error).message}`, { cause: error });
    }
    if (claim.kind === "answer") count("tokens compared", claim.given.length);
    else count(`${claim.kind} compared`, 1);
  }
}

async function compareRow(claim: Claim & { kind: "logits" | "hidden" }, cold: ColdTexts, exact: boolean): Promise<void> {
  const { kind, row, tokens } = claim;
  const expected = await cold[kind](tokens);
  if (exact ? bitsEqual(row, expected) : relRms(row, expected) <= rounded.row) return;
  throw new Error(`${kind} after ${tokens.length} tokens are not those of the cold run: relRms ${relRms(row, expected)}`);
}

/** Compares the logarithm of each token's probability with that from the cold run's logits. */
async function compareLogprobs(claim: Claim, cold: ColdTexts, exact: boolean): Promise<void> {
  if (claim.kind !== "answer" || claim.logprobs.length === 0) return;
  await cold.logits([...claim.tokens, ...claim.given]); // one run for all of them
  for (const [i, token] of claim.given.entries()) {
    const logits = await cold.logits([...claim.tokens, ...claim.given.slice(0, i)]);
    const most = logits.reduce((a, b) => Math.max(a, b));
    const expected = logits[plain([token])[0]!]! - most - Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
    if (Math.abs(claim.logprobs[i]! - expected) <= (exact ? 1e-9 : rounded.logprob)) continue;
    throw new Error(`token ${i} of ${claim.given.length} after ${claim.tokens.length} has the logprob ${claim.logprobs[i]}, and ${expected} in the cold run`);
  }
}
