/**
 * `causal-conv-*` files: x, y_f64 `[B,C,T]`, weight `[C,K]`, states `[B,C,K-1]`, oldest first, in one activation dtype.
 * The state is a copy of inputs, so it is compared by its bytes.
 */

import type { Device } from "../../lib/device/device.ts";
import { decodeBf16, dtypes, encode, type ArrayOfDType, type FloatDType } from "../../lib/tensor/dtype.ts";
import { causalConv1d } from "../../lib/ops/causal-conv1d.ts";
import type { Tensor } from "../../lib/tensor/tensor.ts";
import { outputBound, transposed } from "./op-file.ts";
import type { FileKind, OpFile, OpTensor } from "./op-file.ts";
import type { Report } from "../../lib/cli/verify/report.ts";
import { cuSeqlensOf, evenSeqlens, gather, otherSchedules, pieces, rowsOf, scatter, whole, type Schedule, type Span } from "../../lib/cli/verify/schedule.ts";
import { Slots } from "./slots.ts";

type Elements = ArrayOfDType[FloatDType];

/** One file's inputs and references. */
export interface CausalConvCase {
  readonly sequences: number;
  readonly tokens: number;
  /** Where each sequence's tokens begin in arrays that hold all tokens. */
  readonly cuSeqlens: Int32Array;
  readonly channels: number;
  readonly width: number;
  readonly dtype: FloatDType;
  /** `[B, T, C]`. */
  readonly x: Elements;
  readonly weight: OpTensor;
  readonly bias: OpTensor | undefined;
  readonly stateIn: OpTensor;
  readonly stateOut: OpTensor;
  /** `[B, T, C]`. */
  readonly y: Float64Array;
  readonly activation: "none" | "silu";
}

interface Result {
  readonly output: Elements;
  readonly state: Elements;
}

/** The kind of these files. */
export const causalConvKind: FileKind = { prefix: "causal-conv-", op: "causalConv1d", check };

function check(file: OpFile, device: Device, report: Report): void {
  const data = readCausalConv(file);
  const first = whole(data.sequences, data.tokens);
  const base = run(device, data, first, data.dtype);
  judge(report, data, "whole", data.dtype, base);
  const { dtype } = data;
  const outputNumbers = (array: Elements) => numbers(dtype, array);
  if (dtype !== "f32") {
    const way = "whole, float32 output";
    const exact = run(device, data, first, "f32");
    judge(report, data, way, "f32", exact);
    report.equal(way, "output rounded, bits of whole", encode(dtype, exact.output), base.output, outputNumbers);
  }

  const promised = (way: string, schedule: Schedule, otherSlots = false) => {
    const result = run(device, data, schedule, dtype, otherSlots);
    judge(report, data, way, dtype, result);
    report.equal(way, "output, bits of whole", result.output, base.output, outputNumbers);
  };
  const half = [Math.max(1, Math.floor(data.tokens / 2)), data.tokens];
  promised("other slots", pieces("", data.sequences, data.tokens, half), true);
  for (const schedule of otherSchedules(data.sequences, data.tokens)) promised(schedule.way, schedule);
}

function judge(report: Report, data: CausalConvCase, way: string, outDType: FloatDType, result: Result): void {
  const { dtype, data: expected } = data.stateOut;
  report.near(way, "output", numbers(outDType, result.output), data.y, outputBound(outDType, data.y));
  report.equal(way, "state", result.state, expected, (array) => numbers(dtype, array));
}

function numbers(dtype: FloatDType, array: Elements): ArrayLike<number> {
  return dtype === "bf16" ? decodeBf16(array) : array;
}

/** Reads a file's case. */
export function readCausalConv(file: OpFile): CausalConvCase {
  const x = file.tensor("x", ["B", "C", "T"]);
  const weight = file.tensor("weight", ["C", "K"]);
  const stateIn = file.tensor("state_in", ["B", "C", "K-1"], [x.dtype, "f32"]);
  const tokens = file.size("T");
  const channels = file.size("C");
  return {
    sequences: file.size("B"),
    tokens,
    cuSeqlens: evenSeqlens(file.size("B"), tokens),
    channels,
    width: file.size("K"),
    dtype: x.dtype,
    x: transposed(x.data, channels, tokens),
    weight,
    bias: file.source.has("bias") ? file.tensor("bias", ["C"]) : undefined,
    stateIn,
    stateOut: file.tensor("state_out", ["B", "C", "K-1"], [stateIn.dtype]),
    y: transposed(file.reference("y_f64", ["B", "C", "T"]), channels, tokens),
    activation: file.flag("silu", true) ? "silu" : "none",
  };
}

function run(device: Device, data: CausalConvCase, schedule: Schedule, outDType: FloatDType, otherSlots = false): Result {
  const { sequences, tokens, cuSeqlens, channels, width, stateIn } = data;
  const output = dtypes[outDType].create(sequences * tokens * channels);
  const slots = new Slots(sequences, otherSlots);
  using pool = device.tensor(stateIn.dtype, [slots.count, channels, width - 1]);
  pool.data.set(stateIn.data);
  using weight = device.tensorFrom(data.weight.dtype, data.weight.shape, data.weight.data);
  using bias = data.bias && device.tensorFrom(data.bias.dtype, data.bias.shape, data.bias.data);
  for (const spans of schedule.calls) {
    const part = call(device, data, spans, outDType, { weight, bias, state: pool, ...slots.step(spans) });
    scatter(spans, cuSeqlens, channels, part, output);
  }
  const state = dtypes[stateIn.dtype].create(stateIn.data.length);
  slots.collect(pool.data, state);
  return { output, state };
}

/** Runs one ragged batch and copies its output out. */
function call(
  device: Device,
  data: CausalConvCase,
  spans: readonly Span[],
  outDType: FloatDType,
  rest: {
    readonly weight: Tensor;
    readonly bias: Tensor | undefined;
    readonly state: Tensor;
    readonly readSlots: Int32Array;
    readonly writeSlots: Int32Array;
  },
): Elements {
  const shape = [rowsOf(spans), data.channels];
  using x = device.tensorFrom(data.dtype, shape, gather(spans, data.cuSeqlens, data.channels, data.x));
  using out = device.tensor(outDType, shape);
  device.run(causalConv1d({ x, out, ...rest, activation: data.activation, cuSeqlens: cuSeqlensOf(spans) }));
  device.wait();
  return out.data.slice();
}
