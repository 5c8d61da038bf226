/** Gated RMS norm (Zhang and Sennrich, arXiv 1910.07467, with a gate): over the last dimension. */
import { sigmoid, silu } from "./scalar.ts";
import { mapped, reference, sumOfSquares } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export interface GatedRmsNormOptions {
  readonly eps?: number | undefined;
  readonly activation?: "silu" | "sigmoid" | undefined;
  readonly order?: "norm-then-gate" | "gate-then-norm" | undefined;
}

export interface GatedRmsNormCase extends GatedRmsNormOptions {
  /** `[…, dim]` */
  readonly x: Reference;
  readonly z: Reference;
  /** `[dim]` */
  readonly weight: Reference;
}

/** The op on plain numbers. */
export function gatedRmsNorm({ x, z, weight, eps = 1e-6, activation = "silu", order }: GatedRmsNormCase): Reference {
  const dim = weight.shape[0]!;
  const act = activation === "silu" ? silu : sigmoid;
  const gateFirst = order === "gate-then-norm";
  const out = reference(x.shape);
  for (let start = 0; start < x.data.length; start += dim) {
    const gate = mapped(z.data.subarray(start, start + dim), act);
    const row = x.data.slice(start, start + dim);
    for (let i = 0; gateFirst && i < dim; i++) row[i]! *= gate[i]!;
    const mean = sumOfSquares(row) / dim;
    for (let i = 0; i < dim; i++) {
      out.data[start + i] = (weight.data[i]! * row[i]! * (gateFirst ? 1 : gate[i]!)) / Math.sqrt(mean + eps);
    }
  }
  return out;
}
