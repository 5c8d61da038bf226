/**
 * Where top-p cuts. By definition, weights are added from the largest down until they reach p times the whole sum, which
 * needs a sort of the vocabulary. Sums by ranges of weights find the cut without sorting; if rounding could move the cut,
 * the definition is used instead.
 */

/** Weights above `weight` remain, and the first `equal` of those equal to it. */
export interface TopPCut {
  readonly weight: number;
  readonly equal: number;
}

/** Fewer weights than this are sorted directly. */
const fewest = 2048;

/** Bits of a range's index, taken below the sign of a float64 (11 bits of exponent, 52 of fraction); weights are at most 1. */
const rangeBits = 16;
const shift = 31 - rangeBits;

/** Memory for the sums of ranges, allocated by the first cut that needs it. */
export class TopPMemory {
  #sums: Float64Array | undefined;

  /** All 0. */
  get sums(): Float64Array {
    return (this.#sums ??= new Float64Array(2 ** rangeBits)).fill(0);
  }
}

/** @param weights finite, from 0 on. */
export function weightOfTopP(weights: Float64Array, topP: number, memory = new TopPMemory()): TopPCut {
  let total = 0;
  for (let i = 0; i < weights.length; i++) total += weights[i]!;
  const found = weights.length < fewest ? undefined : cutByRanges(weights, topP * total, total, memory.sums);
  return found ?? cutOfSorted(weights, topP, total);
}

/**
 * The cut by definition. Weights below (1 − p) / 2n of the sum need not be sorted: there are at most n of them, so together
 * they are less than half of the part that top-p leaves out.
 */
function cutOfSorted(weights: Float64Array, topP: number, total: number): TopPCut {
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

/**
 * The cut, from the sums of ranges (indexed by the first bits of a weight) and a sort of the range that contains it;
 * undefined if rounding errors could move it. A sum of n numbers in any order differs from the exact sum by less than
 * n · 2^−53 of it; two such sums are compared, and the same margin again is left for the sums of ranges.
 */
function cutByRanges(weights: Float64Array, wanted: number, total: number, sums: Float64Array): TopPCut | undefined {
  const count = weights.length;
  const words = new Uint32Array(weights.buffer, weights.byteOffset, 2 * count); // little-endian: the high word is the second
  for (let i = 0; i < count; i++) sums[words[2 * i + 1]! >>> shift]! += weights[i]!;
  const tolerance = total * count * 2 ** -50;
  let range = sums.length - 1;
  let above = 0;
  while (range > 0 && above + sums[range]! < wanted) above += sums[range--]!;
  let within = 0;
  for (let i = 0; i < count; i++) if (words[2 * i + 1]! >>> shift === range) within++;
  const sorted = new Float64Array(within);
  for (let i = 0, at = 0; i < count; i++) if (words[2 * i + 1]! >>> shift === range) sorted[at++] = weights[i]!;
  sorted.sort();
  for (let i = within - 1; i >= 0; i--) {
    const before = above;
    above += sorted[i]!;
    if (above < wanted - tolerance) continue;
    if (above < wanted + tolerance || before > wanted - tolerance) return undefined;
    let equal = 1;
    while (sorted[i + equal] === sorted[i]) equal++;
    return { weight: sorted[i]!, equal };
  }
  return undefined;
}
