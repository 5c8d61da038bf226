/** The scalar functions of the layer, in float64 and without cancellation at either end. */

/** 1 / (1 + e^-x). */
export function sigmoid(x: number): number {
  if (x >= 0) return 1 / (1 + Math.exp(-x));
  const e = Math.exp(x);
  return e / (1 + e);
}

/** x · sigmoid(x). */
export function silu(x: number): number {
  return x * sigmoid(x);
}

/** log(1 + e^x). */
export function softplus(x: number): number {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
}
