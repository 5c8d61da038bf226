/** The k best of each row's logits and their shares of its softmax, in float64. */
import { dims, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** logits `[tokens, experts]`; ids and weights `[tokens, k]`. */
export function route(logits: Reference, k: number, normalize: boolean): { readonly ids: Int32Array; readonly weights: Reference } {
  const [tokens, experts] = dims(logits, 2) as [number, number];
  const ids = new Int32Array(tokens * k);
  const weights = reference([tokens, k]);
  for (let t = 0; t < tokens; t++) {
    const row = logits.data.subarray(t * experts, (t + 1) * experts);
    const order = [...row.keys()].sort((a, b) => compare(row[a]!, row[b]!) || a - b).slice(0, k);
    const most = Math.max(...row); // NaN if the row has one
    const sum = row.reduce((total, value) => total + Math.exp(value - most), 0);
    const shares = order.map((id) => Math.exp(row[id]! - most) / sum);
    const total = normalize ? shares.reduce((a, b) => a + b, 0) : 1;
    ids.set(order, t * k);
    weights.data.set(shares.map((share) => share / total), t * k);
  }
  return { ids, weights };
}

/** Descending; NaN last. */
function compare(a: number, b: number): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return a === b ? 0 : b - a;
}
