/** Arguments that the gated delta rule and its fused step share. */
import { asChoice, asEpsilon, asFloat32, invalid } from "../arguments/checks.ts";
import {
  asTensor,
  expectContiguous,
  expectContiguousRows,
  expectDType,
  expectFloat,
  expectShape,
} from "../tensor/expect.ts";
import type { DType } from "../tensor/dtype.ts";
import { describe } from "../errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { betaForms, gateDimsNames, gateForms, headMaps, qkNorms } from "./option-names.ts";
import type { BetaForm, GateDims, GateForm, HeadMap, QKNorm } from "./option-names.ts";

/** Options of the recurrence. */
export interface RecurrenceOptions {
  /** How the decay comes from `gate`; there is no default. */
  readonly gateForm: GateForm;
  /** Whether there is one gate a head or one for every key dimension. @default "head" */
  readonly gateDims?: GateDims | undefined;
  /** The bound L < 0 of `raw-bounded`, which needs it; no other form takes it. */
  readonly gateBound?: number | undefined;
  /** How β comes from `beta`. @default "given" */
  readonly betaForm?: BetaForm | undefined;
  /** Which key head serves which value head. @default "block" */
  readonly heads?: HeadMap | undefined;
  /** Normalisation of query and key rows. @default "none" */
  readonly qkNorm?: QKNorm | undefined;
  /** Epsilon of `qkNorm`. @default 1e-6 */
  readonly qkNormEps?: number | undefined;
  /** Factor of the (normalised) query. @default keyDim ** -0.5 */
  readonly scale?: number | undefined;
}

/** Tensors that the gate is made of. */
export interface GateTensors {
  /**
   * `[tokens, valueHeads]`, or `[tokens, valueHeads, keyDim]` with `gateDims: "key"`. f32 for the forms `decay`, `log`
   * and `neg-log`; for the raw forms the activation dtype or f32.
   */
  readonly gate: Tensor;
  /** `[tokens, valueHeads]`, of the activation dtype or f32. */
  readonly beta: Tensor;
  /** `[valueHeads]`, any float dtype: needed by the raw forms, refused by the others. */
  readonly aLog?: Tensor | undefined;
  /** `[valueHeads]`, or `[valueHeads, keyDim]` with `gateDims: "key"`, any float dtype; as `aLog`. */
  readonly dtBias?: Tensor | undefined;
}

/** Checked options; names are the numbers that cross the boundary. */
export interface CheckedRecurrence {
  readonly gateForm: number;
  readonly gateDims: number;
  readonly gateBound: number;
  readonly betaForm: number;
  readonly heads: number;
  readonly qkNorm: number;
  readonly qkNormEps: number;
  readonly scale: number;
}

/** Checks the options, each of which was read once. */
export function checkRecurrence(
  op: string,
  keyDim: number,
  gateForm: unknown,
  gateDims: unknown,
  gateBound: unknown,
  betaForm: unknown,
  heads: unknown,
  qkNorm: unknown,
  qkNormEps: unknown,
  scale: unknown,
): CheckedRecurrence {
  const form = asChoice(op, "gateForm", gateForm, gateForms);
  if (form === gateForms["raw-bounded"]) {
    if (!(typeof gateBound === "number" && gateBound < 0))
      throw invalid(op, "gateBound", "a number below 0", gateBound);
  } else if (gateBound !== undefined) {
    throw invalid(op, "gateBound", `nothing with gateForm ${describe(gateForm)}`, gateBound);
  }
  return {
    gateForm: form,
    gateDims: asChoice(op, "gateDims", gateDims, gateDimsNames, "head"),
    gateBound: asFloat32(op, "gateBound", gateBound, 0),
    betaForm: asChoice(op, "betaForm", betaForm, betaForms, "given"),
    heads: asChoice(op, "heads", heads, headMaps, "block"),
    qkNorm: asChoice(op, "qkNorm", qkNorm, qkNorms, "none"),
    qkNormEps: asEpsilon(op, "qkNormEps", qkNormEps, 1e-6),
    scale: asFloat32(op, "scale", scale, keyDim ** -0.5),
  };
}

/** Checked tensors that the gate and β are made of. */
export interface CheckedGates {
  readonly gate: Tensor;
  readonly beta: Tensor;
  readonly aLog: Tensor | undefined;
  readonly dtBias: Tensor | undefined;
}

/** Checks the tensors that the gate and β are made of. `rows` names the first dimension for messages. */
export function checkGates(
  op: string,
  recurrence: CheckedRecurrence,
  activation: DType,
  tokens: number,
  valueHeads: number,
  keyDim: number,
  rows: string,
  givenGate: unknown,
  givenBeta: unknown,
  givenALog: unknown,
  givenDtBias: unknown,
): CheckedGates {
  const perKey = recurrence.gateDims === gateDimsNames.key;
  const raw = recurrence.gateForm >= gateForms.raw;
  const gate = asTensor(op, "gate", givenGate);
  if (perKey) expectShape(op, "gate", gate, [tokens, valueHeads, keyDim], [rows, "valueHeads", "keyDim"]);
  else expectShape(op, "gate", gate, [tokens, valueHeads], [rows, "valueHeads"]);
  expectDType(op, "gate", gate, raw ? activation : "f32", "f32");
  expectContiguousRows(op, "gate", gate);
  const beta = asTensor(op, "beta", givenBeta);
  expectShape(op, "beta", beta, [tokens, valueHeads], [rows, "valueHeads"]);
  expectDType(op, "beta", beta, activation, "f32");
  expectContiguousRows(op, "beta", beta);
  const aLog = rawOnly(op, "aLog", givenALog, raw);
  if (aLog !== undefined) expectShape(op, "aLog", aLog, [valueHeads], ["valueHeads"]);
  const dtBias = rawOnly(op, "dtBias", givenDtBias, raw);
  if (dtBias !== undefined) {
    if (perKey) expectShape(op, "dtBias", dtBias, [valueHeads, keyDim], ["valueHeads", "keyDim"]);
    else expectShape(op, "dtBias", dtBias, [valueHeads], ["valueHeads"]);
  }
  return { gate, beta, aLog, dtBias };
}

/** A tensor that the raw gate forms need and the others refuse. */
function rawOnly(op: string, argument: string, value: unknown, raw: boolean): Tensor | undefined {
  if (!raw) {
    if (value !== undefined) throw invalid(op, argument, "nothing: only the raw gate forms take it", value);
    return undefined;
  }
  if (value === undefined) throw invalid(op, argument, "a Tensor: the raw gate forms need it", value);
  const tensor = asTensor(op, argument, value);
  expectFloat(op, argument, tensor);
  expectContiguous(op, argument, tensor);
  return tensor;
}
