/** The k largest elements of each row and their columns. */
import { dims } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** x `[rows, columns]`; values and ids `[rows, k]`. */
export function topK(x: Reference, k: number): { readonly values: number[]; readonly ids: number[] } {
  const [rows, columns] = dims(x, 2) as [number, number];
  const values: number[] = [];
  const ids: number[] = [];
  for (let r = 0; r < rows; r++) {
    const row = x.data.subarray(r * columns, (r + 1) * columns);
    const best = [...row.keys()].sort((a, b) => compare(row[a]!, row[b]!) || a - b).slice(0, k);
    ids.push(...best);
    values.push(...best.map((id) => row[id]!));
  }
  return { values, ids };
}

/** Descending; NaN first. */
function compare(a: number, b: number): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(b)) - Number(Number.isNaN(a));
  return a === b ? 0 : b - a;
}
