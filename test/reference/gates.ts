/** Decay and beta from the given values, in every form. */
import { round } from "./rounding.ts";
import { sigmoid, softplus } from "./scalar.ts";
import { dims, mapped, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export type GateForm = "decay" | "log" | "neg-log" | "raw" | "raw-ssm" | "raw-bounded";
export type GateDims = "head" | "key";
export type BetaForm = "given" | "sigmoid" | "2-sigmoid";

export interface GateOptions {
  readonly gateForm: GateForm;
  /** `[Hv]`, for the raw forms; `raw-ssm` reads it as ssm_a. */
  readonly aLog?: Reference | undefined;
  /** `[Hv]`, or `[Hv, Dk]` if the gate is per key dimension. */
  readonly dtBias?: Reference | undefined;
  /** L of `raw-bounded`, below 0. */
  readonly gateBound?: number | undefined;
  /** `f32` rounds each decay as the library does: near 1, that error exceeds all later ones. */
  readonly decayFormat?: "f64" | "f32" | undefined;
}

/**
 * The decay of every gate value: `[tokens, Hv]` or `[tokens, Hv, Dk]`, like the gate.
 */
export function decays(gate: Reference, options: GateOptions): Reference {
  const heads = gate.shape[1]!;
  const perHead = gate.shape.length === 3 ? gate.shape[2]! : 1;
  const out = reference(gate.shape);
  for (let i = 0; i < gate.data.length; i++) {
    const head = Math.floor(i / perHead) % heads;
    const bias = options.dtBias?.data[gate.shape.length === 3 ? head * perHead + (i % perHead) : head];
    const decay = decayOf(gate.data[i]!, options, options.aLog?.data[head], bias);
    out.data[i] = options.decayFormat === "f32" ? round("f32", decay) : decay;
  }
  return out;
}

function decayOf(given: number, options: GateOptions, aLog: number | undefined, bias: number | undefined): number {
  switch (options.gateForm) {
    case "decay":
      return given;
    case "log":
      return Math.exp(given);
    case "neg-log":
      return Math.exp(-given);
    case "raw":
      return Math.exp(-Math.exp(needed(aLog)) * softplus(given + needed(bias)));
    case "raw-ssm":
      return Math.exp(needed(aLog) * softplus(given + needed(bias)));
    case "raw-bounded":
      return Math.exp(needed(options.gateBound) * sigmoid(Math.exp(needed(aLog)) * (given + needed(bias))));
  }
}

function needed(value: number | undefined): number {
  if (value === undefined) throw new Error("reference: the raw gate forms need aLog, dtBias and, bounded, gateBound");
  return value;
}

/** The resulting beta, `[tokens, Hv]`. */
export function betas(beta: Reference, form: BetaForm): Reference {
  dims(beta, 2);
  const change = { given: (b: number) => b, sigmoid, "2-sigmoid": (b: number) => 2 * sigmoid(b) }[form];
  return { shape: beta.shape, data: mapped(beta.data, change) };
}
