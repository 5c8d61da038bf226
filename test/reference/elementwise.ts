/** The ops on elements of two tensors, in float64. */
import { silu } from "./scalar.ts";
import { reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** a + b */
export function add(a: Reference, b: Reference): Reference {
  return reference(a.shape, a.data.map((value, i) => value + b.data[i]!));
}

/** silu(gate) · up */
export function siluMul(gate: Reference, up: Reference): Reference {
  return reference(gate.shape, gate.data.map((value, i) => silu(value) * up.data[i]!));
}
