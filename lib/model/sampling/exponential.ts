/**
 * exp(x) for x ≤ 0, computed with only additions and multiplications so that it has the same bits on every machine;
 * Math.exp may not. x = (k + j / 128) ln 2 + r with |r| ≤ ln 2 / 256, and exp(r) is its Taylor polynomial of degree 5, whose error
 * is below 2^-60; a table has 2^(j / 128).
 * Results below exp(-708) are 0.
 */

/** Steps of the table between powers of two. */
const stepBits = 7;
const steps = 1 << stepBits;
const stepsOfOne = 1.4426950408889634 * steps;
/** ln 2 in two parts, divided by the steps. The first has 32 bits, so 128 k + j times it is exact. */
const high = 0.693147180369123816490 / steps;
const low = 1.90821492927058770002e-10 / steps;

/** 1.5 · 2^52: adding it to a small number rounds the number to the nearest integer. Math.round takes six times as long. */
const roundingPart = 6755399441055744;

/** 2^(k − 1022) at index k. */
const powers = (() => {
  const table = new Float64Array(1024);
  const bits = new BigUint64Array(table.buffer);
  for (let i = 0; i < table.length; i++) bits[i] = BigInt(i + 1) << 52n;
  return table;
})();

/** 2^(j / 128) at index j, by the Taylor series of exp(j ln 2 / 128) from its smallest term, which ends below 2^-60. */
const roots = Float64Array.from({ length: steps }, (_, j) => {
  const r = j * (high + low);
  let sum = 1;
  for (let n = 20; n > 0; n--) sum = 1 + (r * sum) / n;
  return sum;
});

/** 1 / n! */
const [c2, c3, c4, c5] = [1 / 2, 1 / 6, 1 / 24, 1 / 120] as const;

/** @param x at most 0. */
export function exponential(x: number): number {
  if (x < -708) return 0;
  const rounded = x * stepsOfOne + roundingPart - roundingPart;
  const r = x - rounded * high - rounded * low;
  const k = rounded | 0;
  const root = roots[k & (steps - 1)]!;
  return (root + root * (r * (1 + r * (c2 + r * (c3 + r * (c4 + r * c5)))))) * powers[(k >> stepBits) + 1022]!;
}
