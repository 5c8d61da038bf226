/**
 * exp(x) for x ≤ 0, computed with only additions and multiplications so that it has the same bits on every machine;
 * Math.exp may not. x = k ln 2 + r with |r| ≤ ln 2 / 2, and exp(r) is its Taylor polynomial of degree 13, whose error is
 * below 2^-57.
 * Results below exp(-708) are 0.
 */

const log2e = 1.4426950408889634;
/** ln 2 in two parts. The first has 32 bits, so k times it is exact. */
const ln2High = 0.693147180369123816490;
const ln2Low = 1.90821492927058770002e-10;

/** 1.5 · 2^52: adding it to a small number rounds that to the nearest integer. Math.round takes six times as long. */
const roundingPart = 6755399441055744;

/** 2^(k − 1022) at index k. */
const powers = (() => {
  const table = new Float64Array(1024);
  const bits = new BigUint64Array(table.buffer);
  for (let i = 0; i < table.length; i++) bits[i] = BigInt(i + 1) << 52n;
  return table;
})();

/** 1 / n! */
const [c2, c3, c4, c5, c6, c7] = [1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040] as const;
const [c8, c9, c10, c11, c12, c13] = [1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800, 1 / 479001600, 1 / 6227020800] as const;

/** @param x at most 0. */
export function exponential(x: number): number {
  if (x < -708) return 0;
  const k = x * log2e + roundingPart - roundingPart;
  const r = x - k * ln2High - k * ln2Low;
  const tail = c7 + r * (c8 + r * (c9 + r * (c10 + r * (c11 + r * (c12 + r * c13)))));
  const head = 1 + r * (1 + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * tail))))));
  return head * powers[(k + 1022) | 0]!;
}
