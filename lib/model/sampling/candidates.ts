/** The tokens that may be chosen, and their probabilities. All arithmetic is in float64, in a fixed order. */
import { exponential } from "./exponential.ts";
import type { SamplingSettings } from "./settings.ts";
import { TopPMemory, weightOfTopP } from "./top-p.ts";

/** One row of logits, from the model or after a penalty. */
export type Logits = Float32Array | Float64Array;

/** Tokens, with weights that are proportional to their probabilities. */
export interface Candidates {
  /** Ascending. */
  readonly ids: Int32Array;
  /** exp((logit − largest logit) / temperature), 1 for the most likely. */
  readonly weights: Float64Array;
}

/** Reusable memory for the candidates of a row of logits; the next row overwrites it. */
export class CandidateMemory {
  readonly #weights: Float64Array<ArrayBuffer>;
  readonly #ids: Int32Array<ArrayBuffer>;
  readonly cut: TopPMemory = new TopPMemory();

  /** @param count the most candidates. */
  constructor(count: number) {
    this.#weights = new Float64Array(count);
    this.#ids = new Int32Array(count);
  }

  weights(count: number): Float64Array<ArrayBuffer> {
    return this.#weights.subarray(0, count);
  }

  ids(count: number): Int32Array<ArrayBuffer> {
    return this.#ids.subarray(0, count);
  }
}

/**
 * The tokens that remain after top-k, then top-p, then min-p. Sums run over ascending ids, top-p's over descending weights.
 *
 * @param logits finite or −∞, at least one finite.
 * @param most the largest logit.
 */
export function candidatesOf(
  logits: Logits,
  most: number,
  { temperature, topK, topP, minP }: SamplingSettings,
  memory = new CandidateMemory(logits.length),
): Candidates {
  const among = topK > 0 && topK < logits.length ? largestIds(logits, topK) : undefined;
  const count = among?.length ?? logits.length;
  const weights = memory.weights(count);
  const ids = memory.ids(count);
  const least = Math.max(minP, Number.MIN_VALUE);
  let found = 0;
  for (let i = 0; i < count; i++) {
    const id = among === undefined ? i : among[i]!;
    const weight = exponential((logits[id]! - most) / temperature);
    if (weight < least && topP === 1) continue; // top-p is of all weights
    ids[found] = id;
    weights[found++] = weight;
  }
  if (topP === 1) return { ids: ids.subarray(0, found), weights: weights.subarray(0, found) };
  const { weight: cut, equal } = weightOfTopP(weights, topP, memory.cut);
  const bound = Math.max(cut, least);
  let kept = 0;
  let equalLeft = equal;
  for (let i = 0; i < count; i++) {
    const weight = weights[i]!;
    if (weight < bound || (weight === cut && equalLeft-- <= 0)) continue;
    ids[kept] = ids[i]!;
    weights[kept++] = weight; // overwrites only entries that were already visited
  }
  return { ids: ids.subarray(0, kept), weights: weights.subarray(0, kept) };
}

/** The ids of the `count` largest logits, ascending; of equal logits those with the lower ids. */
export function largestIds(logits: Logits, count: number): Int32Array {
  // A heap whose root is replaced first: the smallest logit, of equal ones the one with the highest id.
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
    if (!(logits[id]! > logits[heap[0]!]!)) continue; // of equal logits this one has the higher id
    heap[0] = id;
    sink(0, count);
  }
  return heap.sort();
}
