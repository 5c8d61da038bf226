/** The causal convolution with SiLU: the update for a token, and prefill. */
import { causalConv1d } from "../../lib/index.ts";
import type { CausalConv1dArguments, Device } from "../../lib/index.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesOf, bytesWork, copiesOf, filled, opBenchmark } from "../operands.ts";
import type { Calls } from "../operands.ts";
import { channelsOf, convWidth, nameOf, offsetsOf, rowsOf } from "../shapes.ts";
import type { Shape } from "../shapes.ts";
import type { Work } from "../work.ts";

/** Bytes of one call's states, of its rows (x and out together), and of its weights. */
export function convBytes(shape: Shape): { readonly states: number; readonly rows: number; readonly weights: number } {
  const channels = channelsOf(shape);
  return {
    states: shape.sequences * channels * (convWidth - 1) * bytesOf[shape.dtype],
    rows: 2 * rowsOf(shape) * channels * bytesOf[shape.dtype],
    weights: channels * convWidth * 4,
  };
}

/** An update is mostly its states, in place; a prefill copies x to out. */
function convWork(shape: Shape): Work {
  const { states, rows, weights } = convBytes(shape);
  const pattern = shape.tokens === 1 ? "in-place" : "copy";
  return bytesWork(shape.temperature, 2 * states + rows + weights, pattern, states + rows + weights);
}

/** The calls, as for the recurrence. */
export function convCalls(device: Device, shape: Shape): Calls<CausalConv1dArguments> {
  const { dtype, sequences, temperature } = shape;
  const rows = rowsOf(shape);
  const channels = channelsOf(shape);
  const bytes = convBytes(shape);
  const copies = copiesOf(temperature, bytes.states + bytes.rows + bytes.weights);
  const x = filled(device, dtype, [copies * rows, channels]);
  const out = filled(device, dtype, [copies * rows, channels]);
  const weight = filled(device, "f32", [copies * channels, convWidth]);
  const state = filled(device, dtype, [copies * sequences, channels, convWidth - 1]);
  const calls = Array.from({ length: copies }, (_, i) => ({
    x: x.slice(i * rows, (i + 1) * rows),
    out: out.slice(i * rows, (i + 1) * rows),
    weight: weight.slice(i * channels, (i + 1) * channels),
    state: state.slice(i * sequences, (i + 1) * sequences),
    cuSeqlens: offsetsOf(shape),
  }));
  return { calls, tensors: [x, out, weight, state] };
}

export function convBenchmark(shape: Shape, device: () => Device): Benchmark {
  return opBenchmark(nameOf("causalConv1d", shape), device, shape.threads, convWork(shape), (opened) => {
    const { calls, tensors } = convCalls(opened, shape);
    return { calls: calls.map((args) => [causalConv1d(args)]), tensors };
  });
}
