/**
 * Runs the library's ops on cases of the reference: uploads the inputs in the requested formats, runs, downloads, and
 * fails if the op wrote to memory that it must not change.
 */
import { expect } from "bun:test";
import { causalConv1d, gatedDelta, gatedDeltaStep, gatedRmsNorm } from "../../lib/index.ts";
import type { Algorithm, Device, Op } from "../../lib/index.ts";
import type { BatchOptions } from "../reference/batch.ts";
import type { CausalConv1dCase } from "../reference/causal-conv1d.ts";
import type { GatedDeltaCase, GatedDeltaOptions } from "../reference/gated-delta.ts";
import type { GatedDeltaStepCase } from "../reference/gated-delta-step.ts";
import type { GatedRmsNormCase } from "../reference/gated-rms-norm.ts";
import type { Format } from "../reference/rounding.ts";
import { betaFormatOf, gateFormatOf } from "./cases.ts";
import type { ConvSpec, DeltaSpec, NormSpec, StepSpec } from "./cases.ts";
import { Layouts, download } from "./layouts.ts";
import type { Random } from "./random.ts";

/** The formats of a recurrence's tensors; `format` is that of query, key and value. */
export interface DeltaFormats {
  readonly format: Format;
  readonly gate: Format;
  readonly beta: Format;
  readonly aLog: Format;
  readonly dtBias: Format;
  readonly state: Format;
  readonly out: Format;
}

/** The formats of a convolution's tensors; `format` is that of x. */
export interface ConvFormats {
  readonly format: Format;
  readonly weight: Format;
  readonly bias: Format;
  readonly state: Format;
  readonly out: Format;
}

/** The formats of a norm's tensors; `format` is that of z. */
export interface NormFormats {
  readonly x: Format;
  readonly format: Format;
  readonly weight: Format;
  readonly out: Format;
}

/** The formats of a fused step's tensors; `format` is that of x and z. */
export interface StepFormats extends DeltaFormats {
  readonly convWeight: Format;
  readonly convBias: Format;
  readonly convState: Format;
  readonly normWeight: Format;
}

/** How to run a case. */
export interface Running {
  /** Makes strided layouts; without it, tensors are contiguous. */
  readonly layouts?: Random | undefined;
  readonly algorithm?: Algorithm | undefined;
}

/** The formats in the description of a case. */
export function deltaFormats(spec: DeltaSpec): DeltaFormats {
  const { format, weightFormat: weight, stateFormat: state, outFormat: out } = spec;
  return { format, gate: gateFormatOf(spec), beta: betaFormatOf(spec), aLog: weight, dtBias: weight, state, out };
}

/** The formats in the description of a step. */
export function stepFormats(spec: StepSpec): StepFormats {
  const { weightFormat: weight, convStateFormat: convState } = spec;
  return { ...deltaFormats(spec), convWeight: weight, convBias: weight, convState, normWeight: weight };
}

/** The formats in the description of a convolution. */
export function convFormats({
  format,
  weightFormat: weight,
  stateFormat: state,
  outFormat: out,
}: ConvSpec): ConvFormats {
  return { format, weight, bias: weight, state, out };
}

/** The formats in the description of a norm. */
export function normFormats({ xFormat: x, format, weightFormat: weight, outFormat: out }: NormSpec): NormFormats {
  return { x, format, weight, out };
}

/** Everything in float32, for every op. */
export const allF32: StepFormats & ConvFormats & NormFormats = {
  format: "f32",
  gate: "f32",
  beta: "f32",
  aLog: "f32",
  dtBias: "f32",
  state: "f32",
  out: "f32",
  weight: "f32",
  bias: "f32",
  x: "f32",
  convWeight: "f32",
  convBias: "f32",
  convState: "f32",
  normWeight: "f32",
};

/** An op's output, without rows beyond the last sequence, and the pool after it. */
export interface Results {
  readonly out: Float32Array<ArrayBuffer>;
  readonly state: Float32Array<ArrayBuffer> | undefined;
}

/** The rows that sequences cover. */
export function usedRows({ cuSeqlens }: BatchOptions, rows: number): number {
  return cuSeqlens?.at(-1) ?? rows;
}

/** The slots that an op writes. */
export function writtenSlots({ cuSeqlens, readSlots, writeSlots }: BatchOptions): readonly number[] {
  return writeSlots ?? readSlots ?? Array.from({ length: (cuSeqlens?.length ?? 2) - 1 }, (_, s) => s);
}

/** The arguments that both recurrent ops take unchanged; options that a case omits stay omitted. */
function optionsOf(given: GatedDeltaOptions, perKey: boolean) {
  const { gateForm, gateBound, betaForm, headMap, qkNorm, qkNormEps, scale } = given;
  return {
    gateForm,
    gateDims: perKey ? ("key" as const) : undefined,
    gateBound,
    betaForm,
    headMap,
    qkNorm,
    qkNormEps,
    scale,
  };
}

function batchOf({ cuSeqlens, readSlots, writeSlots }: BatchOptions) {
  return { cuSeqlens, readSlots, writeSlots };
}

/** Runs ops, and fails for any byte that changed and should not have. */
export function runChecked(device: Device, layouts: Layouts, ...ops: readonly Op[]): void {
  device.run(...ops);
  device.wait();
  const trespasses = layouts.trespasses();
  if (trespasses.length > 0) expect(trespasses).toEqual([]);
}

/** The op's tensors in memory. */
export function placeGatedDelta(layouts: Layouts, given: GatedDeltaCase, formats: DeltaFormats) {
  const rows = usedRows(given, given.query.shape[0]!);
  const perKey = given.gate.shape.length === 3;
  return {
    query: layouts.rows("query", formats.format, given.query, rows),
    key: layouts.rows("key", formats.format, given.key, rows),
    value: layouts.rows("value", formats.format, given.value, rows),
    gate: layouts.rows("gate", formats.gate, given.gate, rows, perKey ? 8 : 1),
    beta: layouts.rows("beta", formats.beta, given.beta, rows, 1),
    aLog: given.aLog && layouts.packed("aLog", formats.aLog, given.aLog),
    dtBias: given.dtBias && layouts.packed("dtBias", formats.dtBias, given.dtBias),
    state: given.state && layouts.pool("state", formats.state, given.state, writtenSlots(given)),
    out: layouts.out("out", formats.out, given.value.shape, rows),
    ...optionsOf(given, perKey),
    ...batchOf(given),
  };
}

/** Runs `gatedDelta`. */
export function runGatedDelta(
  device: Device,
  given: GatedDeltaCase,
  formats: DeltaFormats,
  running: Running = {},
): Results {
  using layouts = new Layouts(device, running.layouts);
  const args = placeGatedDelta(layouts, given, formats);
  runChecked(device, layouts, gatedDelta({ ...args, algorithm: running.algorithm }));
  return { out: download(args.out, usedRows(given, given.query.shape[0]!)), state: args.state && download(args.state) };
}

/** The op's tensors in memory. */
export function placeCausalConv1d(layouts: Layouts, given: CausalConv1dCase, formats: ConvFormats) {
  const rows = usedRows(given, given.x.shape[0]!);
  return {
    x: layouts.rows("x", formats.format, given.x, rows),
    weight: layouts.packed("weight", formats.weight, given.weight),
    bias: given.bias && layouts.packed("bias", formats.bias, given.bias),
    state: given.state && layouts.pool("state", formats.state, given.state, writtenSlots(given), 1),
    out: layouts.out("out", formats.out, given.x.shape, rows),
    activation: given.activation,
    ...batchOf(given),
  };
}

/** Runs `causalConv1d`. */
export function runCausalConv1d(
  device: Device,
  given: CausalConv1dCase,
  formats: ConvFormats,
  running: Running = {},
): Results {
  using layouts = new Layouts(device, running.layouts);
  const args = placeCausalConv1d(layouts, given, formats);
  runChecked(device, layouts, causalConv1d(args));
  return { out: download(args.out, usedRows(given, given.x.shape[0]!)), state: args.state && download(args.state) };
}

/** The op's tensors in memory. */
export function placeGatedRmsNorm(layouts: Layouts, given: GatedRmsNormCase, formats: NormFormats) {
  return {
    x: layouts.rows("x", formats.x, given.x),
    z: layouts.rows("z", formats.format, given.z),
    weight: layouts.packed("weight", formats.weight, given.weight),
    out: layouts.out("out", formats.out, given.x.shape),
    eps: given.eps,
    activation: given.activation,
    order: given.order,
  };
}

/** Runs `gatedRmsNorm`. */
export function runGatedRmsNorm(
  device: Device,
  given: GatedRmsNormCase,
  formats: NormFormats,
  running: Running = {},
): Float32Array<ArrayBuffer> {
  using layouts = new Layouts(device, running.layouts);
  const args = placeGatedRmsNorm(layouts, given, formats);
  runChecked(device, layouts, gatedRmsNorm(args));
  return download(args.out);
}

/** The op's tensors in memory. */
export function placeGatedDeltaStep(layouts: Layouts, given: GatedDeltaStepCase, formats: StepFormats) {
  const perKey = given.gate.shape.length === 3;
  const written = writtenSlots({ ...given, cuSeqlens: Array.from({ length: given.x.shape[0]! + 1 }, (_, s) => s) });
  return {
    x: layouts.rows("x", formats.format, given.x),
    keyHeads: given.keyHeads,
    convWeight: layouts.packed("convWeight", formats.convWeight, given.convWeight),
    convBias: given.convBias && layouts.packed("convBias", formats.convBias, given.convBias),
    convState: layouts.pool("convState", formats.convState, given.convState, written, 1),
    gate: layouts.rows("gate", formats.gate, given.gate, undefined, perKey ? 8 : 1),
    beta: layouts.rows("beta", formats.beta, given.beta, undefined, 1),
    aLog: given.aLog && layouts.packed("aLog", formats.aLog, given.aLog),
    dtBias: given.dtBias && layouts.packed("dtBias", formats.dtBias, given.dtBias),
    state: layouts.pool("state", formats.state, given.state, written),
    z: layouts.rows("z", formats.format, given.z),
    normWeight: layouts.packed("normWeight", formats.normWeight, given.normWeight),
    out: layouts.out("out", formats.out, given.z.shape),
    ...optionsOf(given, perKey),
    convActivation: given.convActivation,
    normActivation: given.normActivation,
    normOrder: given.normOrder,
    normEps: given.normEps,
    readSlots: given.readSlots,
    writeSlots: given.writeSlots,
  };
}

/** The results of a step: an output and both pools. */
export interface StepResults {
  readonly out: Float32Array<ArrayBuffer>;
  readonly state: Float32Array<ArrayBuffer>;
  readonly convState: Float32Array<ArrayBuffer>;
}

/** Runs `gatedDeltaStep`. */
export function runGatedDeltaStep(
  device: Device,
  given: GatedDeltaStepCase,
  formats: StepFormats,
  running: Running = {},
): StepResults {
  using layouts = new Layouts(device, running.layouts);
  const args = placeGatedDeltaStep(layouts, given, formats);
  runChecked(device, layouts, gatedDeltaStep(args));
  return { out: download(args.out), state: download(args.state), convState: download(args.convState) };
}
