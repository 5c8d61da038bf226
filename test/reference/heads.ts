/** Which key head serves a value head, and the normalisation of a query or key row. */

export type HeadMap = "block" | "tiled";
export type QkNorm = "none" | "l2" | "l2-max" | "rms";

/** The key head of value head `hv`. */
export function keyHeadOf(hv: number, keyHeads: number, valueHeads: number, heads: HeadMap): number {
  return heads === "block" ? Math.floor(hv / (valueHeads / keyHeads)) : hv % keyHeads;
}

/** A row normalised. */
export function normalised(row: Float64Array, norm: QkNorm, eps: number): Float64Array {
  const squares = row.reduce((sum, x) => sum + x * x, 0);
  switch (norm) {
    case "none":
      return row.slice();
    case "l2":
      return row.map((x) => x / Math.sqrt(squares + eps));
    case "l2-max":
      return row.map((x) => x / Math.max(Math.sqrt(squares), eps));
    case "rms":
      return row.map((x) => x / Math.sqrt(squares + row.length * eps));
  }
}
