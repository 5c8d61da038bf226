/** silu(gate) · up in float64. */
import { silu } from "./scalar.ts";
import { reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export function siluMul(gate: Reference, up: Reference): Reference {
  return reference(gate.shape, gate.data.map((value, i) => silu(value) * up.data[i]!));
}
