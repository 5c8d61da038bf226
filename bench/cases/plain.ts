/** The plain ops: a projection of one token, bound by its weights, and copies of slots. */
import { copySlots, linear } from "../../lib/index.ts";
import type { CopySlotsArguments, Device, LinearArguments } from "../../lib/index.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesOf, bytesWork, copiesOf, filled, opBenchmark } from "../operands.ts";
import type { Calls } from "../operands.ts";
import { dim, nameOf } from "../shapes.ts";
import type { Shape } from "../shapes.ts";

/** Columns of the hidden state of a model with 32 value heads. */
const hidden = 2048;

/** The output projection of a layer: valueHeads · dim → hidden. */
export function linearCalls(device: Device, shape: Shape): Calls<LinearArguments> {
  const inputs = shape.valueHeads * dim;
  const copies = copiesOf(shape.temperature, inputs * hidden * bytesOf[shape.dtype]);
  const x = filled(device, shape.dtype, [shape.sequences, inputs]);
  const weight = filled(device, shape.dtype, [copies * hidden, inputs]);
  const out = filled(device, "f32", [shape.sequences, hidden]);
  const calls = Array.from({ length: copies }, (_, i) => ({
    x,
    weight: weight.slice(i * hidden, (i + 1) * hidden),
    out,
  }));
  return { calls, tensors: [x, weight, out] };
}

export function linearBenchmark(shape: Shape, device: () => Device): Benchmark {
  const bytes = shape.valueHeads * dim * hidden * bytesOf[shape.dtype];
  const work = bytesWork(shape.temperature, bytes, "read", bytes);
  return opBenchmark(nameOf("linear", shape), device, shape.threads, work, (opened) => {
    const { calls, tensors } = linearCalls(opened, shape);
    return { calls: calls.map((args) => [linear(args)]), tensors };
  });
}

/** Slot i of the first half is copied to slot i of the second, one per sequence. */
export function copyCalls(device: Device, shape: Shape): Calls<CopySlotsArguments> {
  const { sequences, valueHeads } = shape;
  const copies = copiesOf(shape.temperature, 2 * sequences * valueHeads * dim * dim * bytesOf[shape.dtype]);
  const pool = filled(device, shape.dtype, [2 * copies * sequences, valueHeads, dim, dim]);
  const readSlots = Array.from({ length: sequences }, (_, i) => i);
  const calls = Array.from({ length: copies }, (_, i) => ({
    pool: pool.slice(2 * i * sequences, 2 * (i + 1) * sequences),
    readSlots,
    writeSlots: readSlots.map((slot) => slot + sequences),
  }));
  return { calls, tensors: [pool] };
}

export function copyBenchmark(shape: Shape, device: () => Device): Benchmark {
  const bytes = 2 * shape.sequences * shape.valueHeads * dim * dim * bytesOf[shape.dtype];
  const work = bytesWork(shape.temperature, bytes, "copy", bytes);
  return opBenchmark(nameOf("copySlots", shape), device, shape.threads, work, (opened) => {
    const { calls, tensors } = copyCalls(opened, shape);
    return { calls: calls.map((args) => [copySlots(args)]), tensors };
  });
}
