/**
 * Causal attention of one sequence, in float64, by its definition: every score, one softmax over all of them. Grouped
 * heads, norms, partial rotation and gate are as in transformers' `Qwen3_5Attention` (modeling_qwen3_5.py).
 */
import { dims, reference, sumOfSquares } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** The norm, the rotation and the scale of query and key rows before their products. */
export interface HeadOptions {
  readonly rotaryDim: number;
  readonly ropeTheta: number;
  readonly normEps: number;
  readonly weightForm: "weight" | "one-plus-weight";
}

/** Rows [tokens, heads, headDim] normalised by a weight, if there is one, and rotated by their positions. */
export function prepared(x: Reference, weight: Reference | undefined, positions: readonly number[], options: HeadOptions): Reference {
  const [tokens, heads, dim] = dims(x, 3);
  const out = reference(x.shape, x.data);
  const half = options.rotaryDim / 2;
  for (let t = 0; t < tokens!; t++) {
    for (let h = 0; h < heads!; h++) {
      const row = out.data.subarray((t * heads! + h) * dim!, (t * heads! + h + 1) * dim!);
      if (weight !== undefined) {
        const mean = sumOfSquares(row) / dim!;
        const factor = 1 / Math.sqrt(mean + options.normEps);
        for (let i = 0; i < dim!; i++) row[i] = row[i]! * factor * (weight.data[i]! + (options.weightForm === "weight" ? 0 : 1));
      }
      for (let i = 0; i < half; i++) {
        const angle = positions[t]! * options.ropeTheta ** ((-2 * i) / options.rotaryDim);
        const [a, b, c, s] = [row[i]!, row[half + i]!, Math.cos(angle), Math.sin(angle)];
        row[i] = a * c - b * s;
        row[half + i] = b * c + a * s;
      }
    }
  }
  return out;
}

/** Query row i attends to the first `past + i + 1` keys. The gate's sigmoid multiplies the output. */
export function attend(
  query: Reference, keys: Reference, values: Reference, past: number, scale: number, gate?: Reference,
): Reference {
  const [tokens, heads, dim] = dims(query, 3);
  const [, keyHeads] = dims(keys, 3);
  const out = reference(query.shape);
  const at = (t: number, h: number, count: number) => (t * count + h) * dim!;
  for (let t = 0; t < tokens!; t++) {
    for (let h = 0; h < heads!; h++) {
      const keyHead = Math.floor(h / (heads! / keyHeads!));
      const q = at(t, h, heads!);
      const weights = new Float64Array(past + t + 1);
      let most = -Infinity;
      for (let j = 0; j < weights.length; j++) {
        const k = at(j, keyHead, keyHeads!);
        let sum = 0;
        for (let i = 0; i < dim!; i++) sum += query.data[q + i]! * keys.data[k + i]!;
        weights[j] = sum * scale;
        most = Math.max(most, weights[j]!);
      }
      let total = 0;
      for (let j = 0; j < weights.length; j++) {
        weights[j] = Math.exp(weights[j]! - most);
        total += weights[j]!;
      }
      for (let i = 0; i < dim!; i++) {
        let sum = 0;
        for (let j = 0; j < weights.length; j++) sum += weights[j]! * values.data[at(j, keyHead, keyHeads!) + i]!;
        const factor = gate === undefined ? 1 : 1 / (1 + Math.exp(-gate.data[q + i]!));
        out.data[q + i] = (sum / total) * factor;
      }
    }
  }
  return out;
}
