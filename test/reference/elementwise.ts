/** The ops on elements of two tensors, in float64. */
import { silu } from "./scalar.ts";
import { reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** a + b */
export function add(a: Reference, b: Reference): Reference {
  const out = reference(a.shape);
  for (let i = 0; i < out.data.length; i++) out.data[i] = a.data[i]! + b.data[i]!;
  return out;
}

/** silu(gate) · up */
export function siluMul(gate: Reference, up: Reference): Reference {
  const out = reference(gate.shape);
  for (let i = 0; i < out.data.length; i++) out.data[i] = silu(gate.data[i]!) * up.data[i]!;
  return out;
}
