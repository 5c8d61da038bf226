/** Arguments that the gated delta rule and its fused step share. */
import {
  asChoice,
  asEpsilon,
  asFloat32,
  asOptionalTensor,
  asRequiredChoice,
  asTensor,
  expectContiguous,
  expectContiguousRows,
  expectDType,
  expectShape,
  invalid,
} from "../check.ts";
import type { DType, FloatDType } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";
import { betaForms, gateDimsNames, gateForms, headMaps, qkNorms } from "./options.ts";
import type { BetaForm, GateDims, GateForm, HeadMap, QKNorm } from "./options.ts";

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

/** Checked options, as numbers of the boundary where they cross as such. */
export interface CheckedRecurrence {
  readonly gateForm: number;
  readonly gateDims: GateDims;
  readonly gateBound: number;
  readonly betaForm: number;
  readonly heads: number;
  readonly qkNorm: number;
  readonly qkNormEps: number;
  readonly scale: number;
  /** Whether aLog and dtBias are needed. */
  readonly raw: boolean;
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
  const form = asRequiredChoice(op, "gateForm", gateForm, gateForms);
  const bounded = form === "raw-bounded";
  if (!bounded && gateBound !== undefined) {
    throw invalid(op, "gateBound", `nothing with gateForm ${JSON.stringify(form)}`, gateBound);
  }
  if (bounded && !(typeof gateBound === "number" && gateBound < 0)) {
    throw invalid(op, "gateBound", "a number below 0", gateBound);
  }
  return {
    gateForm: gateForms[form],
    gateDims: asChoice(op, "gateDims", gateDims, gateDimsNames, "head"),
    gateBound: asFloat32(op, "gateBound", gateBound, 0),
    betaForm: betaForms[asChoice(op, "betaForm", betaForm, betaForms, "given")],
    heads: headMaps[asChoice(op, "heads", heads, headMaps, "block")],
    qkNorm: qkNorms[asChoice(op, "qkNorm", qkNorm, qkNorms, "none")],
    qkNormEps: asEpsilon(op, "qkNormEps", qkNormEps, 1e-6),
    scale: asFloat32(op, "scale", scale, keyDim ** -0.5),
    raw: form.startsWith("raw"),
  };
}

/** Every dtype that numbers to compute with can have. */
export const floats: readonly FloatDType[] = ["f32", "f16", "bf16"];

/** Checks the tensors that the gate and β are made of. `rows` names the first dimension for messages. */
export function checkGates(
  op: string,
  { gateDims, raw }: CheckedRecurrence,
  activation: DType,
  dims: { readonly tokens: number; readonly valueHeads: number; readonly keyDim: number },
  rows: string,
  gate: unknown,
  beta: unknown,
  aLog: unknown,
  dtBias: unknown,
): { readonly gate: Tensor; readonly beta: Tensor; readonly aLog: Tensor | undefined; readonly dtBias: Tensor | undefined } {
  const { tokens, valueHeads, keyDim } = dims;
  const perKey = gateDims === "key";
  const checked = {
    gate: asTensor(op, "gate", gate),
    beta: asTensor(op, "beta", beta),
    aLog: asOptionalTensor(op, "aLog", aLog),
    dtBias: asOptionalTensor(op, "dtBias", dtBias),
  };
  const keys = perKey ? [keyDim] : [];
  const keysName = perKey ? ["keyDim"] : [];
  expectShape(op, "gate", checked.gate, [tokens, valueHeads, ...keys], [rows, "valueHeads", ...keysName]);
  expectDType(op, "gate", checked.gate, ...(raw ? [activation, "f32" as const] : ["f32" as const]));
  expectContiguousRows(op, "gate", checked.gate);
  expectShape(op, "beta", checked.beta, [tokens, valueHeads], [rows, "valueHeads"]);
  expectDType(op, "beta", checked.beta, activation, "f32");
  expectContiguousRows(op, "beta", checked.beta);
  for (const argument of ["aLog", "dtBias"] as const) {
    const tensor = checked[argument];
    if (raw !== (tensor !== undefined)) {
      throw invalid(op, argument, raw ? "a Tensor: the raw gate forms need it" : "nothing: only the raw gate forms take it", tensor);
    }
    if (tensor === undefined) continue;
    const perKeyHere = argument === "dtBias";
    expectShape(
      op,
      argument,
      tensor,
      perKeyHere ? [valueHeads, ...keys] : [valueHeads],
      perKeyHere ? ["valueHeads", ...keysName] : ["valueHeads"],
    );
    expectDType(op, argument, tensor, ...floats);
    expectContiguous(op, argument, tensor);
  }
  return checked;
}
