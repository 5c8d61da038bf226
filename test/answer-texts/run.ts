/** Runs random answers of a seed: the n-th follows from the two numbers alone. */
import { Counts, Difference } from "../support/schedules.ts";
import { Random } from "../support/random.ts";
import { nthSeed } from "../support/schedules.ts";
import { checkText } from "./check.ts";
import { makeText } from "./texts.ts";

/** The results of a run. */
export interface TextReport {
  readonly counts: Counts;
  /** The first text for which a check does not hold. */
  readonly failure: string | undefined;
}

export function runTexts(seed: number, first: number, count: number): TextReport {
  const counts = new Counts();
  for (let n = first; n < first + count; n++) {
    const random = new Random(nthSeed(seed, n));
    const text = makeText(random);
    try {
      checkText(text, random, counts);
    } catch (error) {
      const what = error instanceof Difference ? error.message : (error as Error).stack;
      return { counts, failure: `text ${n} of seed ${seed}: ${what}\n${JSON.stringify({ ...text, tools: text.tools.length })}` };
    }
  }
  return { counts, failure: undefined };
}
