/** The fused decode step, and the chain of ops that it replaces, over the same tensors. */
import { gatedDeltaStep } from "../../lib/index.ts";
import type { Device, Tensor } from "../../lib/index.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesOf, copiesOf, bytesWork, filled, opBenchmark } from "../operands.ts";
import type { Calls } from "../operands.ts";
import { channelsOf, convWidth, dim, keyHeads, nameOf } from "../shapes.ts";
import type { Shape } from "../shapes.ts";
import { chainOf } from "../step-chain.ts";
import type { StepArguments } from "../step-chain.ts";

/** Bytes of one call's states of both kinds, and of the tensors that are read or written once. */
function stepBytes(shape: Shape): { readonly states: number; readonly rest: number } {
  const { dtype, sequences, valueHeads } = shape;
  const channels = channelsOf(shape);
  const size = bytesOf[dtype];
  return {
    states: sequences * (valueHeads * dim * dim + channels * (convWidth - 1)) * size,
    rest: sequences * ((channels + 2 * valueHeads * dim) * size + 8 * valueHeads) + channels * convWidth * 4,
  };
}

/** The calls, as for the recurrence, with gates and beta as a checkpoint's projections give them. */
export function stepCalls(device: Device, shape: Shape): Calls<StepArguments> {
  const { dtype, sequences, valueHeads, temperature } = shape;
  const channels = channelsOf(shape);
  const copies = copiesOf(temperature, stepBytes(shape).states);
  const rows = copies * sequences;
  const tensors = {
    x: filled(device, dtype, [rows, channels]),
    z: filled(device, dtype, [rows, valueHeads, dim]),
    gate: filled(device, "f32", [rows, valueHeads], -1, 1),
    beta: filled(device, "f32", [rows, valueHeads], -1, 1),
    out: filled(device, dtype, [rows, valueHeads, dim]),
    state: filled(device, dtype, [rows, valueHeads, dim, dim], -0.1, 0.1),
    convState: filled(device, dtype, [rows, channels, convWidth - 1]),
    convWeight: filled(device, "f32", [copies * channels, convWidth]),
    aLog: filled(device, "f32", [valueHeads], -3, -1),
    dtBias: filled(device, "f32", [valueHeads]),
    normWeight: filled(device, "f32", [dim], 0.5, 1.5),
  };
  const between = {
    conv: filled(device, dtype, [sequences, channels]),
    core: filled(device, "f32", [sequences, valueHeads, dim]),
  };
  const calls = Array.from({ length: copies }, (_, i) => {
    const part = (tensor: Tensor) => tensor.slice(i * sequences, (i + 1) * sequences);
    const { aLog, dtBias, normWeight } = tensors;
    return {
      x: part(tensors.x),
      z: part(tensors.z),
      gate: part(tensors.gate),
      beta: part(tensors.beta),
      out: part(tensors.out),
      state: part(tensors.state),
      convState: part(tensors.convState),
      convWeight: tensors.convWeight.slice(i * channels, (i + 1) * channels),
      ...{ aLog, dtBias, normWeight, keyHeads, between },
      ...({ gateForm: "raw", betaForm: "sigmoid", qkNorm: "l2" } as const),
    };
  });
  return { calls, tensors: [...Object.values(tensors), between.conv, between.core] };
}

export function stepBenchmark(shape: Shape, device: () => Device, how: "fused" | "chain"): Benchmark {
  const { states, rest } = stepBytes(shape);
  const name = nameOf(how === "fused" ? "gatedDeltaStep" : "gatedDeltaStep-unfused", shape);
  const work = bytesWork(shape.temperature, 2 * states + rest, "in-place", states + rest);
  return opBenchmark(name, device, shape.threads, work, (opened) => {
    const { calls, tensors } = stepCalls(opened, shape);
    if (how === "chain") return { calls: calls.map(chainOf), tensors };
    return { calls: calls.map(({ between: _, ...args }) => [gatedDeltaStep(args)]), tensors };
  });
}
