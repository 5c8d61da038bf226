/** The gated delta rule: decode, bound by the states' bytes, and prefill, bound by multiply-adds. */
import { gatedDelta } from "../../lib/index.ts";
import type { Algorithm, Device, GatedDeltaArguments } from "../../lib/index.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesOf, bytesWork, copiesOf, filled, opBenchmark } from "../operands.ts";
import type { Calls, Rotation } from "../operands.ts";
import { dim, keyHeads, nameOf, offsetsOf, rowsOf } from "../shapes.ts";
import type { Shape } from "../shapes.ts";
import type { Work } from "../work.ts";

/** Bytes of one call's states, and of its other tensors. */
export function deltaBytes(shape: Shape): { readonly states: number; readonly rest: number } {
  const { dtype, sequences, valueHeads } = shape;
  const activations = (2 * keyHeads + 2 * valueHeads) * dim * bytesOf[dtype];
  return {
    states: sequences * valueHeads * dim * dim * bytesOf[dtype],
    rest: rowsOf(shape) * (activations + 8 * valueHeads),
  };
}

/**
 * Three multiply-adds per state element and token (S k, S q and the update); the decay's multiplication is not counted. A
 * call of one token is counted in bytes: it reads and writes each state once.
 */
export function deltaWork(shape: Shape): Work {
  const { states, rest } = deltaBytes(shape);
  if (shape.tokens === 1) return bytesWork(shape.temperature, 2 * states + rest, "in-place", states + rest);
  return { kind: "multiply-adds", count: 3 * rowsOf(shape) * shape.valueHeads * dim * dim };
}

/** The arguments of as many calls as the shape's temperature requires, each with its own tensors. */
export function deltaCalls(device: Device, shape: Shape, algorithm: Algorithm = "auto"): Calls<GatedDeltaArguments> {
  const { dtype, sequences, valueHeads, temperature } = shape;
  const rows = rowsOf(shape);
  const copies = copiesOf(temperature, deltaBytes(shape).states);
  const query = filled(device, dtype, [copies * rows, keyHeads, dim]);
  const key = filled(device, dtype, [copies * rows, keyHeads, dim]);
  const value = filled(device, dtype, [copies * rows, valueHeads, dim]);
  const gate = filled(device, "f32", [copies * rows, valueHeads], -0.2, -0.01);
  const beta = filled(device, "f32", [copies * rows, valueHeads], 0, 1);
  const out = filled(device, dtype, [copies * rows, valueHeads, dim]);
  const state = filled(device, dtype, [copies * sequences, valueHeads, dim, dim], -0.1, 0.1);
  const calls = Array.from({ length: copies }, (_, i) => {
    const [start, end] = [i * rows, (i + 1) * rows];
    return {
      query: query.slice(start, end),
      key: key.slice(start, end),
      value: value.slice(start, end),
      gate: gate.slice(start, end),
      beta: beta.slice(start, end),
      out: out.slice(start, end),
      state: state.slice(i * sequences, (i + 1) * sequences),
      gateForm: "log",
      qkNorm: "l2",
      cuSeqlens: offsetsOf(shape),
      algorithm,
    } as const;
  });
  return { calls, tensors: [query, key, value, gate, beta, out, state] };
}

function rotation(device: Device, shape: Shape, algorithm: Algorithm): Rotation {
  const { calls, tensors } = deltaCalls(device, shape, algorithm);
  return { calls: calls.map((args) => [gatedDelta(args)]), tensors };
}

/** The benchmark of a shape; that of the chunked algorithm has a name of its own. */
export function deltaBenchmark(shape: Shape, device: () => Device, algorithm: "auto" | "chunked" = "auto"): Benchmark {
  const name = nameOf(algorithm === "chunked" ? "gatedDelta-chunked" : "gatedDelta", shape);
  return opBenchmark(name, device, shape.threads, deltaWork(shape), (opened) => rotation(opened, shape, algorithm));
}
