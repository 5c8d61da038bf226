/** Which key head serves a value head, and the normalisation of a query or key row. */
import { mapped, sumOfSquares } from "./tensor.ts";

export type HeadMap = "block" | "tiled";
export type QkNorm = "none" | "l2" | "l2-max" | "rms";

/** The key head of value head `hv`. */
export function keyHeadOf(hv: number, keyHeads: number, valueHeads: number, heads: HeadMap): number {
  return heads === "block" ? Math.floor(hv / (valueHeads / keyHeads)) : hv % keyHeads;
}

/** A row normalised, and scaled. */
export function normalised(row: Float64Array, norm: QkNorm, eps: number, scale = 1): Float64Array {
  const length = lengthOf(sumOfSquares(row), row.length, norm, eps);
  return mapped(row, (x) => (x / length) * scale);
}

/** The divisor of a row. */
function lengthOf(squares: number, dim: number, norm: QkNorm, eps: number): number {
  switch (norm) {
    case "none":
      return 1;
    case "l2":
      return Math.sqrt(squares + eps);
    case "l2-max":
      return Math.max(Math.sqrt(squares), eps);
    case "rms":
      return Math.sqrt(squares + dim * eps);
  }
}
