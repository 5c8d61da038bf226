/** RMS norm without a gate, in float64. Zhang and Sennrich 2019. */
import type { Reference } from "./tensor.ts";

/** Arguments of the reference. */
export interface RmsNormCase {
  readonly x: Reference;
  readonly weight: Reference;
  readonly eps: number;
  readonly weightForm: "weight" | "one-plus-weight";
}

/** out = x rsqrt(mean x^2 + eps) w, row by row. */
export function rmsNorm({ x, weight, eps, weightForm }: RmsNormCase): Reference {
  const dim = x.shape.at(-1)!;
  const data = new Float64Array(x.data.length);
  for (let row = 0; row < data.length; row += dim) {
    let sum = 0;
    for (let i = 0; i < dim; i++) sum += x.data[row + i]! ** 2;
    const factor = 1 / Math.sqrt(sum / dim + eps);
    for (let i = 0; i < dim; i++) {
      const w = weightForm === "weight" ? weight.data[i]! : 1 + weight.data[i]!;
      data[row + i] = x.data[row + i]! * factor * w;
    }
  }
  return { shape: x.shape, data };
}
