/**
 * Builds the inputs of an op from a short description of a case. The numbers come from the description's seed and are
 * already rounded to the formats that they will be stored in, so that a backend and the reference start from the same ones.
 */
import type { CausalConv1dCase } from "../reference/causal-conv1d.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import type { GatedDeltaStepCase } from "../reference/gated-delta-step.ts";
import type { GatedRmsNormCase } from "../reference/gated-rms-norm.ts";
import type { BetaForm, GateDims, GateForm } from "../reference/gates.ts";
import type { HeadMap, QkNorm } from "../reference/heads.ts";
import { round } from "../reference/rounding.ts";
import type { Format } from "../reference/rounding.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { Random } from "./random.ts";

/** Tokens of each sequence, and where its state comes from and goes. */
export interface BatchSpec {
  /** Tokens of each sequence; 0 is valid, too. */
  readonly lengths: readonly number[];
  /** Rows after the last sequence: neither read nor written. */
  readonly rowsBeyond: number;
  /** Slots of the pool; 0: no pool. */
  readonly slots: number;
  readonly readSlots: readonly number[];
  /** Distinct except for -1. */
  readonly writeSlots: readonly number[];
}

export interface DeltaSpec {
  readonly seed: number;
  readonly keyHeads: number;
  /** Value heads for each key head. */
  readonly ratio: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly gateForm: GateForm;
  readonly gateDims: GateDims;
  readonly betaForm: BetaForm;
  readonly headMap: HeadMap;
  readonly qkNorm: QkNorm;
  /** Absent: the default, Dk^-½. */
  readonly scale: number | undefined;
  /** The format of query, key and value (and x and z of a step). */
  readonly format: Format;
  /** Whether the gate and beta are float32 even where they may have the activation's format. */
  readonly gatesF32: boolean;
  /** The format of aLog, dtBias and weights. */
  readonly weightFormat: Format;
  readonly stateFormat: Format;
  readonly outFormat: Format;
}

export interface GatedDeltaSpec extends DeltaSpec {
  readonly batch: BatchSpec;
}

export interface ConvSpec {
  readonly seed: number;
  readonly channels: number;
  readonly width: number;
  readonly bias: boolean;
  readonly activation: "none" | "silu";
  readonly format: Format;
  readonly weightFormat: Format;
  readonly stateFormat: Format;
  readonly outFormat: Format;
  readonly batch: BatchSpec;
}

export interface NormSpec {
  readonly seed: number;
  readonly tokens: number;
  readonly heads: number;
  readonly dim: number;
  readonly eps: number;
  readonly activation: "silu" | "sigmoid";
  readonly order: "norm-then-gate" | "gate-then-norm";
  /** The format of x: that of z, or float32. */
  readonly xFormat: Format;
  /** The format of z. */
  readonly format: Format;
  readonly weightFormat: Format;
  readonly outFormat: Format;
}

export interface StepSpec extends DeltaSpec {
  readonly width: number;
  readonly bias: boolean;
  readonly convActivation: "none" | "silu";
  readonly convStateFormat: Format;
  readonly normActivation: "silu" | "sigmoid";
  readonly normOrder: "norm-then-gate" | "gate-then-norm";
  readonly sequences: number;
  readonly slots: number;
  readonly readSlots: readonly number[];
  readonly writeSlots: readonly number[];
}

/** The row offsets of lengths: `[0, l0, l0 + l1, …]`. */
export function cuSeqlensOf(lengths: readonly number[]): number[] {
  const bounds = [0];
  for (const length of lengths) bounds.push(bounds.at(-1)! + length);
  return bounds;
}

/** All rows of a batch. */
export function rowsOf(batch: BatchSpec): number {
  return cuSeqlensOf(batch.lengths).at(-1)! + batch.rowsBeyond;
}

/** The format that a gate and beta are stored in: the given forms of a gate are always float32. */
export function gateFormatOf(spec: DeltaSpec): Format {
  return spec.gatesF32 || !isRaw(spec.gateForm) ? "f32" : spec.format;
}

/** Beta's format. */
export function betaFormatOf(spec: DeltaSpec): Format {
  return spec.gatesF32 ? "f32" : spec.format;
}

/** Whether a gate form is computed from aLog and dtBias. */
export function isRaw(form: GateForm): boolean {
  return form.startsWith("raw");
}

/** A tensor of random numbers, rounded to a format. */
export function fill(shape: readonly number[], format: Format, next: () => number): Reference {
  const out = reference(shape);
  // Most are float32, whose rounding the language provides; a separate test checks that it equals the reference's.
  if (format === "f32") for (let i = 0; i < out.data.length; i++) out.data[i] = Math.fround(next());
  else for (let i = 0; i < out.data.length; i++) out.data[i] = round(format, next());
  return out;
}

/** The gates and betas of `rows` tokens: everything that decides the decays. */
function gatesOf(spec: DeltaSpec, rows: number, random: Random): Pick<GatedDeltaCase, "gate" | "aLog" | "dtBias" | "gateBound" | "beta"> {
  const valueHeads = spec.keyHeads * spec.ratio;
  const perKey = spec.gateDims === "key" ? [spec.keyDim] : [];
  // Log decays from almost nothing forgotten (-0.001) to almost everything (-7), evenly over the orders of magnitude.
  const logDecay = () => -Math.exp(random.uniform(-7, 2));
  const gateOf: Record<GateForm, () => number> = {
    decay: () => Math.exp(logDecay()),
    log: logDecay,
    "neg-log": () => -logDecay(),
    raw: () => random.normal() * 2,
    "raw-ssm": () => random.normal() * 2,
    "raw-bounded": () => random.normal() * 2,
  };
  const aLog = () => random.uniform(-2, 1);
  const beta = spec.betaForm === "given" ? () => random.uniform() : () => random.normal() * 2;
  return {
    gate: fill([rows, valueHeads, ...perKey], gateFormatOf(spec), gateOf[spec.gateForm]),
    beta: fill([rows, valueHeads], betaFormatOf(spec), beta),
    ...(isRaw(spec.gateForm) && {
      aLog: fill([valueHeads], spec.weightFormat, spec.gateForm === "raw-ssm" ? () => -Math.exp(aLog()) : aLog),
      dtBias: fill([valueHeads, ...perKey], spec.weightFormat, () => random.normal() - 2),
    }),
    ...(spec.gateForm === "raw-bounded" && { gateBound: -random.pick([0.25, 1, 5]) }),
  };
}

function optionsOf({ gateForm, betaForm, headMap, qkNorm, scale }: DeltaSpec) {
  return { gateForm, betaForm, headMap, qkNorm, scale: scale === undefined ? undefined : Math.fround(scale) };
}

/** The inputs of `gatedDelta`. */
export function buildGatedDelta(spec: GatedDeltaSpec): GatedDeltaCase {
  const random = new Random(spec.seed);
  const { batch, keyHeads, keyDim, valueDim, format } = spec;
  const rows = rowsOf(batch);
  const valueHeads = keyHeads * spec.ratio;
  // Without a norm, keys longer than 1 would make the recurrence explode; with one, any length will do.
  const size = spec.qkNorm === "none" ? 0.9 / Math.sqrt(keyDim) : 1;
  return {
    ...optionsOf(spec),
    query: fill([rows, keyHeads, keyDim], format, () => random.normal() * size),
    key: fill([rows, keyHeads, keyDim], format, () => random.normal() * size),
    value: fill([rows, valueHeads, valueDim], format, () => random.normal()),
    ...gatesOf(spec, rows, random),
    cuSeqlens: cuSeqlensOf(batch.lengths),
    ...(batch.slots > 0 && {
      state: fill([batch.slots, valueHeads, valueDim, keyDim], spec.stateFormat, () => random.normal() * 0.5),
      readSlots: batch.readSlots,
      writeSlots: batch.writeSlots,
    }),
  };
}

/** The inputs of `causalConv1d`. */
export function buildCausalConv1d(spec: ConvSpec): CausalConv1dCase {
  const random = new Random(spec.seed);
  const { batch, channels, width } = spec;
  const normal = () => random.normal();
  return {
    x: fill([rowsOf(batch), channels], spec.format, normal),
    weight: fill([channels, width], spec.weightFormat, () => random.normal() / Math.sqrt(width)),
    ...(spec.bias && { bias: fill([channels], spec.weightFormat, normal) }),
    activation: spec.activation,
    cuSeqlens: cuSeqlensOf(batch.lengths),
    ...(batch.slots > 0 && {
      state: fill([batch.slots, channels, width - 1], spec.stateFormat, normal),
      readSlots: batch.readSlots,
      writeSlots: batch.writeSlots,
    }),
  };
}

/** The inputs of `gatedRmsNorm`. */
export function buildGatedRmsNorm(spec: NormSpec): GatedRmsNormCase {
  const random = new Random(spec.seed);
  const shape = [spec.tokens, spec.heads, spec.dim];
  const size = random.pick([1e-3, 1, 30]);
  return {
    x: fill(shape, spec.xFormat, () => random.normal() * size),
    z: fill(shape, spec.format, () => random.normal() * 2),
    weight: fill([spec.dim], spec.weightFormat, () => 1 + random.normal() * 0.2),
    eps: Math.fround(spec.eps),
    activation: spec.activation,
    order: spec.order,
  };
}

/** The inputs of `gatedDeltaStep`. */
export function buildGatedDeltaStep(spec: StepSpec): GatedDeltaStepCase {
  const random = new Random(spec.seed);
  const { sequences, slots, keyHeads, keyDim, valueDim, width, weightFormat } = spec;
  const valueHeads = keyHeads * spec.ratio;
  const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
  const normal = () => random.normal();
  // As in buildGatedDelta: keys without a norm stay short. This applies to every channel of the convolution.
  const size = spec.qkNorm === "none" ? 0.5 / Math.sqrt(keyDim) : 1;
  return {
    ...optionsOf(spec),
    keyHeads,
    x: fill([sequences, channels], spec.format, normal),
    convWeight: fill([channels, width], weightFormat, () => (random.normal() / Math.sqrt(width)) * size),
    ...(spec.bias && { convBias: fill([channels], weightFormat, () => random.normal() * 0.2 * size) }),
    convState: fill([slots, channels, width - 1], spec.convStateFormat, normal),
    convActivation: spec.convActivation,
    ...gatesOf(spec, sequences, random),
    state: fill([slots, valueHeads, valueDim, keyDim], spec.stateFormat, () => random.normal() * 0.5),
    z: fill([sequences, valueHeads, valueDim], spec.format, () => random.normal() * 2),
    normWeight: fill([valueDim], weightFormat, () => 1 + random.normal() * 0.2),
    normActivation: spec.normActivation,
    normOrder: spec.normOrder,
    readSlots: spec.readSlots,
    writeSlots: spec.writeSlots,
    format: spec.format,
  };
}
