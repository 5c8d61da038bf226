/** out[t, j, o] = sum over i of x[t, j, i] · weight[ids[t, j], o, i]; zeros if that expert does not exist. */
import { dims, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** x `[tokens, in]` or `[tokens, k, in]`, weight `[experts, out, in]`, ids `[tokens, k]`. */
export function expertLinear(x: Reference, weight: Reference, ids: Int32Array, k: number): Reference {
  const [experts, outputs, width] = dims(weight, 3) as [number, number, number];
  const rows = ids.length;
  const out = reference([x.shape[0]!, k, outputs]);
  for (let row = 0; row < rows; row++) {
    const expert = ids[row]!;
    if (expert < 0 || expert >= experts) continue;
    const from = (x.shape.length === 2 ? Math.floor(row / k) : row) * width;
    for (let o = 0; o < outputs; o++) {
      let sum = 0;
      for (let i = 0; i < width; i++) sum += x.data[from + i]! * weight.data[(expert * outputs + o) * width + i]!;
      out.data[row * outputs + o] = sum;
    }
  }
  return out;
}
