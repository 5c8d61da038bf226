/** out[r, o] = sum over i of x[r, i] · weight[o, i]. */
import { dims, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** x `[rows, in]`, weight `[out, in]`. */
export function linear(x: Reference, weight: Reference): Reference {
  const [count, width] = dims(x, 2) as [number, number];
  const [outputs] = dims(weight, 2) as [number, number];
  const out = reference([count, outputs]);
  for (let r = 0; r < count; r++) {
    for (let o = 0; o < outputs; o++) {
      let sum = 0;
      for (let i = 0; i < width; i++) sum += x.data[r * width + i]! * weight.data[o * width + i]!;
      out.data[r * outputs + o] = sum;
    }
  }
  return out;
}
