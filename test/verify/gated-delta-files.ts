/**
 * `gated-delta-*` files: q, k `[B,T,Hk,Dk]`, v `[B,T,Hv,Dv]`, g, beta `[B,T,Hv]`, state_in `[B,Hv,Dk,Dv]`, and the results
 * of transformers' functions in float64 and float32. Their states are K-major, ours V-major.
 */

import type { Device } from "../../lib/device/device.ts";
import { decodeBf16, dtypes, encode, type ArrayOfDType, type FloatDType } from "../../lib/tensor/dtype.ts";
import { UnsupportedError } from "../../lib/errors.ts";
import { gatedDelta } from "../../lib/ops/gated-delta.ts";
import type { Tensor } from "../../lib/tensor/tensor.ts";
import { bounds, relRms } from "../../lib/cli/verify/compare.ts";
import { outputBound, transposed } from "./op-file.ts";
import type { FileKind, OpFile, OpTensor } from "./op-file.ts";
import type { Report } from "../../lib/cli/verify/report.ts";
import { cuSeqlensOf, evenSeqlens, gather, oneSequenceAtATime, otherSchedules, pieces, rowsOf, scatter, whole, type Schedule, type Span } from "../../lib/cli/verify/schedule.ts";
import { Slots } from "./slots.ts";

/** One file's inputs, references and options. */
export interface GatedDeltaCase {
  readonly sequences: number;
  readonly tokens: number;
  /** Where each sequence's tokens begin in arrays that hold all tokens. */
  readonly cuSeqlens: Int32Array;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly q: OpTensor;
  readonly k: OpTensor;
  readonly v: OpTensor;
  readonly gate: Float32Array;
  readonly beta: Float32Array;
  /** `[B, Hv, Dv, Dk]`. */
  readonly stateIn: Float32Array;
  readonly output: Float64Array;
  /** `[B, Hv, Dv, Dk]`. */
  readonly state: Float64Array;
  /** The output of transformers' own float32 path. */
  readonly peer: Float64Array | undefined;
  readonly heads: "block" | "tiled";
  readonly qkNorm: "l2" | "none";
  readonly eps: number;
  readonly scale: number;
}

/** An output's largest distance from the reference, relative to that of transformers' own float32 path. */
const peerFactor = 1.25;

/** How to run a case. */
interface Variant {
  readonly algorithm: "auto" | "recurrent" | "chunked";
  readonly outDType: FloatDType;
  /** q, k and v as views of one packed tensor, as in the layer, instead of three tensors. */
  readonly packed?: boolean;
  /** Every call writes different slots from those it reads, instead of the same. */
  readonly otherSlots?: boolean;
}

interface Result {
  readonly output: ArrayOfDType[FloatDType];
  readonly state: Float32Array;
}

/** The kind of these files. */
export const gatedDeltaKind: FileKind = { prefix: "gated-delta-", op: "gatedDelta", check };

function check(file: OpFile, device: Device, report: Report): void {
  const data = readGatedDelta(file);
  const dtype = data.q.dtype;
  const tolerance = outputBound(dtype, data.output);
  const main: Variant = { algorithm: "recurrent", outDType: dtype };
  const first = whole(data.sequences, data.tokens);
  const base = run(device, data, first, main);
  judge(report, data, "whole", dtype, base, tolerance, bounds.f32);

  const exact = dtype === "f32" ? base : run(device, data, first, { ...main, outDType: "f32" });
  if (exact !== base) {
    const way = "whole, float32 output";
    judge(report, data, way, "f32", exact, bounds.f32, bounds.f32);
    const rounded = encode(dtype, exact.output);
    report.equal(way, "output rounded, bits of whole", rounded, base.output, (array) => numbers(dtype, array));
  }
  if (data.peer) report.near("whole", "output vs transformers f32", exact.output, data.output, peerFactor * relRms(data.peer, data.output));

  const promised = (way: string, schedule: Schedule, variant: Partial<Variant>) => {
    const result = run(device, data, schedule, { ...main, ...variant });
    judge(report, data, way, dtype, result, tolerance, bounds.f32);
    same(report, way, result, base);
  };
  promised("algorithm auto", first, { algorithm: "auto" });
  promised("packed query, key and value", first, { packed: true });
  const half = pieces("", data.sequences, data.tokens, [Math.max(1, Math.floor(data.tokens / 2)), data.tokens]);
  promised("other slots", half, { otherSlots: true });
  for (const schedule of otherSchedules(data.sequences, data.tokens)) promised(schedule.way, schedule, {});
  chunked(device, report, data, dtype, half);
}

/** The chunked algorithm, if the backend has it: its bounds, and equal bits in every batch. */
function chunked(device: Device, report: Report, data: GatedDeltaCase, dtype: FloatDType, half: Schedule): void {
  const variant: Variant = { algorithm: "chunked", outDType: dtype };
  const tolerance = Math.max(bounds.chunked, outputBound(dtype, data.output));
  let base: Result;
  try {
    base = run(device, data, whole(data.sequences, data.tokens), variant);
  } catch (error) {
    if (error instanceof UnsupportedError) return; // this backend has no chunked kernel
    throw error;
  }
  judge(report, data, "chunked", dtype, base, tolerance, bounds.chunked);
  judge(report, data, "chunked, split in half", dtype, run(device, data, half, variant), tolerance, bounds.chunked);
  if (data.sequences > 1) {
    const apart = run(device, data, oneSequenceAtATime(data.sequences, data.tokens), variant);
    judge(report, data, "chunked, one sequence at a time", dtype, apart, tolerance, bounds.chunked);
    same(report, "chunked, one sequence at a time", apart, base, "chunked");
  }
}

function judge(
  report: Report,
  data: GatedDeltaCase,
  way: string,
  dtype: FloatDType,
  result: Result,
  outputTolerance: number,
  stateTolerance: number,
): void {
  report.near(way, "output", numbers(dtype, result.output), data.output, outputTolerance);
  report.near(way, "state", result.state, data.state, stateTolerance);
}

function same(report: Report, way: string, result: Result, base: Result, reference = "whole"): void {
  const dtype = base.output instanceof Uint16Array ? "bf16" : "f32";
  report.equal(way, `output, bits of ${reference}`, result.output, base.output, (array) => numbers(dtype, array));
  report.equal(way, `state, bits of ${reference}`, result.state, base.state, (array) => array);
}

function numbers(dtype: FloatDType, array: ArrayOfDType[FloatDType]): ArrayLike<number> {
  return dtype === "bf16" ? decodeBf16(array) : array;
}

/** The files' notation for keyDim^-1/2; any other scale is a number. */
const usualScale = /^\s*Dk\s*\*\*\s*-0\.5\s*$/;

/** Reads a file's case. */
export function readGatedDelta(file: OpFile): GatedDeltaCase {
  const q = file.tensor("q", ["B", "T", "Hk", "Dk"]);
  const k = file.tensor("k", ["B", "T", "Hk", "Dk"], [q.dtype]);
  const v = file.tensor("v", ["B", "T", "Hv", "Dv"], [q.dtype]);
  const gate = file.float32("g", ["B", "T", "Hv"]);
  const beta = file.float32("beta", ["B", "T", "Hv"]);
  const keyDim = file.size("Dk");
  const valueDim = file.size("Dv");
  const kMajor = ["B", "Hv", "Dk", "Dv"];
  file.option("gate", [[/exp\(g\)/, "log"]], "log"); // the only form these files have
  return {
    sequences: file.size("B"),
    tokens: file.size("T"),
    cuSeqlens: evenSeqlens(file.size("B"), file.size("T")),
    keyHeads: file.size("Hk"),
    valueHeads: file.size("Hv"),
    keyDim,
    valueDim,
    q,
    k,
    v,
    gate,
    beta,
    stateIn: transposed(file.float32("state_in", kMajor), keyDim, valueDim),
    output: file.reference("output_f64", ["B", "T", "Hv", "Dv"]),
    state: transposed(file.reference("state_out_f64", kMajor), keyDim, valueDim),
    peer: file.source.has("output_recurrent_f32") ? file.reference("output_recurrent_f32", ["B", "T", "Hv", "Dv"]) : undefined,
    heads: file.option("heads", [[/\/\//, "block"], [/%/, "tiled"]], "block"),
    qkNorm: file.flag("qk_l2norm", true) ? "l2" : "none",
    eps: file.number("l2norm_eps", 0, 1e-6),
    scale: usualScale.test(file.source.metadata.get("q_scale") ?? "Dk**-0.5") ? keyDim ** -0.5 : file.number("q_scale", 0, 1),
  };
}

function run(device: Device, data: GatedDeltaCase, schedule: Schedule, variant: Variant): Result {
  const { sequences, tokens, valueHeads, valueDim, keyDim } = data;
  const output = dtypes[variant.outDType].create(sequences * tokens * valueHeads * valueDim);
  const slots = new Slots(sequences, variant.otherSlots ?? false);
  using pool = device.tensor("f32", [slots.count, valueHeads, valueDim, keyDim]);
  pool.data.set(data.stateIn);
  for (const spans of schedule.calls) {
    const part = call(device, data, spans, variant, { state: pool, ...slots.step(spans) });
    scatter(spans, data.cuSeqlens, valueHeads * valueDim, part, output);
  }
  const state = new Float32Array(data.stateIn.length);
  slots.collect(pool.data, state);
  return { output, state };
}

/** Runs one ragged batch and copies its output out. */
function call(
  device: Device,
  data: GatedDeltaCase,
  spans: readonly Span[],
  { algorithm, outDType, packed: isPacked = false }: Variant,
  slots: { readonly state: Tensor; readonly readSlots: Int32Array; readonly writeSlots: Int32Array },
): ArrayOfDType[FloatDType] {
  const { cuSeqlens, keyHeads, valueHeads, keyDim, valueDim, q, k, v } = data;
  const rows = rowsOf(spans);
  const keys = keyHeads * keyDim;
  const width = 2 * keys + valueHeads * valueDim;
  using stack = new DisposableStack();
  const packed = isPacked ? stack.use(device.tensor(q.dtype, [rows, width])) : undefined;
  const place = (source: ArrayOfDType[FloatDType], offset: number, heads: number, dim: number) => {
    const tensor = packed
      ? packed.view({ offset: rows === 0 ? 0 : offset, shape: [rows, heads, dim], strides: [width, dim, 1] })
      : stack.use(device.tensor(q.dtype, [rows, heads, dim]));
    return tensor.copyFrom(gather(spans, cuSeqlens, heads * dim, source));
  };
  const perHead = (source: Float32Array) =>
    stack.use(device.tensor("f32", [rows, valueHeads])).copyFrom(gather(spans, cuSeqlens, valueHeads, source));
  const out = stack.use(device.tensor(outDType, [rows, valueHeads, valueDim]));
  device.run(
    gatedDelta({
      query: place(q.data, 0, keyHeads, keyDim),
      key: place(k.data, keys, keyHeads, keyDim),
      value: place(v.data, 2 * keys, valueHeads, valueDim),
      gate: perHead(data.gate),
      beta: perHead(data.beta),
      out,
      ...slots,
      cuSeqlens: cuSeqlensOf(spans),
      gateForm: "log",
      headMap: data.heads,
      qkNorm: data.qkNorm,
      qkNormEps: data.eps,
      scale: data.scale,
      algorithm,
    }),
  );
  device.wait();
  return out.data.slice();
}
