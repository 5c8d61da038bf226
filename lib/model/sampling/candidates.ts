/** Which tokens may be chosen, and how likely each is. All arithmetic is in float64, in orders that are stated. */
import { exponential } from "./exponential.ts";
import type { SamplingSettings } from "./settings.ts";

/** Tokens with what their probabilities are proportional to. */
export interface Candidates {
  /** Ascending. */
  readonly ids: Int32Array;
  /** exp((logit − largest logit) / temperature), 1 for the most likely. */
  readonly weights: Float64Array;
}

/**
 * The tokens that are left by top-k, then top-p, then min-p. Sums run over ascending ids, top-p's over descending weights.
 *
 * @param logits finite or −∞, at least one finite.
 * @param most the largest of them.
 */
export function candidatesOf(logits: Float64Array, most: number, { temperature, topK, topP, minP }: SamplingSettings): Candidates {
  let ids = topK > 0 && topK < logits.length ? largest(logits, topK) : undefined;
  const count = ids?.length ?? logits.length;
  let weights = new Float64Array(count);
  for (let i = 0; i < count; i++) weights[i] = exponential((logits[ids === undefined ? i : ids[i]!]! - most) / temperature);
  const atLeast = topP < 1 ? weightOfTopP(weights, topP) : { weight: 0, equal: Infinity };
  let { equal } = atLeast;
  const kept: number[] = [];
  for (let i = 0; i < count; i++) {
    const weight = weights[i]!;
    if (weight < atLeast.weight || weight < minP || weight === 0) continue;
    if (weight === atLeast.weight && equal-- <= 0) continue;
    kept.push(i);
  }
  const found = ids;
  ids = Int32Array.from(kept, (i) => (found === undefined ? i : found[i]!));
  weights = Float64Array.from(kept, (i) => weights[i]!);
  return { ids, weights };
}

/** The ids of the `count` largest logits, of equal ones those of lower ids; ascending. */
function largest(logits: Float64Array, count: number): Int32Array {
  // A heap whose root is the one to go first: the smallest, of equal ones that of the highest id.
  const heap = new Int32Array(count);
  const before = (a: number, b: number): boolean => logits[a]! < logits[b]! || (logits[a] === logits[b] && a > b);
  const sink = (start: number, size: number): void => {
    const id = heap[start]!;
    let at = start;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && before(heap[child + 1]!, heap[child]!)) child++;
      if (!before(heap[child]!, id)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = id;
  };
  for (let i = 0; i < count; i++) heap[i] = i;
  for (let i = (count >> 1) - 1; i >= 0; i--) sink(i, count);
  for (let id = count; id < logits.length; id++) {
    if (!(logits[id]! > logits[heap[0]!]!)) continue; // an equal one has the higher id
    heap[0] = id;
    sink(0, count);
  }
  return heap.sort();
}

/**
 * Where top-p cuts: weights above `weight` stay, and the first `equal` of those that are equal to it.
 *
 * Tokens that together have less than half of what top-p leaves out need not be sorted: there are at most n of them, each
 * below (1 − p) / 2n of the sum.
 */
function weightOfTopP(weights: Float64Array, topP: number): { readonly weight: number; readonly equal: number } {
  let total = 0;
  for (let i = 0; i < weights.length; i++) total += weights[i]!;
  const least = (total * (1 - topP)) / (2 * weights.length);
  const sorted = weights.filter((weight) => weight >= least).sort();
  const wanted = topP * total;
  let sum = 0;
  for (let i = sorted.length - 1; i >= 0; i--) {
    sum += sorted[i]!;
    if (sum < wanted) continue;
    const weight = sorted[i]!;
    let equal = 1;
    while (sorted[i + equal] === weight) equal++;
    return { weight, equal };
  }
  return { weight: 0, equal: Infinity };
}
