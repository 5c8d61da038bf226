/** The largest logits of a position, from which a token can be chosen instead of from all logits. */

/** The largest logits as `topK` gives them: largest first, of equal ones the lowest id first, and NaN before all others. */
export interface BestLogits {
  readonly values: Float32Array;
  readonly ids: Int32Array;
}

/** The most logits that are found. */
export const mostBest = 128;

/** The most logits in a row whose largest are found. */
export const mostBestOf = 1048576;

/** The numbers of logits that are found; only a few, so that few plans are recorded. Logits that are not needed are left out. */
const counts = [1, 32, mostBest] as const;

/** The next one of the numbers that are found, within the vocabulary. */
export function bestCount(wanted: number, vocabSize: number): number {
  return Math.min(counts.find((count) => count >= wanted) ?? mostBest, vocabSize);
}
