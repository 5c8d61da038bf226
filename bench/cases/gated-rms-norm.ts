/** The gated RMS norm: two arrays read, one written. */
import { gatedRmsNorm } from "../../lib/index.ts";
import type { Device, GatedRmsNormArguments } from "../../lib/index.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesOf, bytesWork, copiesOf, filled, opBenchmark } from "../operands.ts";
import type { Calls } from "../operands.ts";
import { dim, nameOf, rowsOf } from "../shapes.ts";
import type { Shape } from "../shapes.ts";

function normBytes(shape: Shape): number {
  return 3 * rowsOf(shape) * shape.valueHeads * dim * bytesOf[shape.dtype];
}

/** The calls, as for the recurrence. */
export function normCalls(device: Device, shape: Shape): Calls<GatedRmsNormArguments> {
  const { dtype, valueHeads, temperature } = shape;
  const rows = rowsOf(shape);
  const copies = copiesOf(temperature, normBytes(shape));
  const fresh = () => filled(device, dtype, [copies * rows, valueHeads, dim]);
  const [x, z, out] = [fresh(), fresh(), fresh()];
  const weight = filled(device, "f32", [dim], 0.5, 1.5);
  const calls = Array.from({ length: copies }, (_, i) => {
    const part = (tensor: typeof x) => tensor.slice(i * rows, (i + 1) * rows);
    return { x: part(x), z: part(z), out: part(out), weight };
  });
  return { calls, tensors: [x, z, out, weight] };
}

export function normBenchmark(shape: Shape, device: () => Device): Benchmark {
  const bytes = normBytes(shape);
  const work = bytesWork(shape.temperature, bytes, "two-to-one", bytes);
  return opBenchmark(nameOf("gatedRmsNorm", shape), device, shape.threads, work, (opened) => {
    const { calls, tensors } = normCalls(opened, shape);
    return { calls: calls.map((args) => [gatedRmsNorm(args)]), tensors };
  });
}
