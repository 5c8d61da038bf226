/** The largest logits of a position, from which a token can be chosen in place of all of them. */

/** As `topK` gives them: largest first, of equal ones the one with the lowest id first, and NaN before all others. */
export interface BestLogits {
  readonly values: Float32Array;
  readonly ids: Int32Array;
}

/** The most of them. */
export const mostBest = 128;

/** The most logits in a row of which they are found. */
export const mostBestOf = 1048576;

/** Numbers of them that are found, so that few plans are recorded; those that are not needed are left out. */
const counts = [1, 32, mostBest] as const;

/** The next one of the numbers that are found, within the vocabulary. */
export function bestCount(wanted: number, vocabSize: number): number {
  return Math.min(counts.find((count) => count >= wanted) ?? mostBest, vocabSize);
}
