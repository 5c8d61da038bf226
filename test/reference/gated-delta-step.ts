/** One decode token of every sequence: convolution, recurrence and gated norm one after the other. */
import { causalConv1d } from "./causal-conv1d.ts";
import { gatedDelta } from "./gated-delta.ts";
import type { GatedDeltaOptions } from "./gated-delta.ts";
import { gatedRmsNorm } from "./gated-rms-norm.ts";
import { rounded } from "./rounding.ts";
import type { Format } from "./rounding.ts";
import { columns, dims, reshape } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export interface GatedDeltaStepCase extends GatedDeltaOptions {
  /** `[n, C]`, C = 2 Hk Dk + Hv Dv, laid out query | key | value. */
  readonly x: Reference;
  readonly convWeight: Reference;
  readonly convBias?: Reference | undefined;
  readonly convState: Reference;
  readonly convActivation?: "none" | "silu" | undefined;
  readonly gate: Reference;
  readonly beta: Reference;
  readonly state: Reference;
  /** `[n, Hv, Dv]` */
  readonly z: Reference;
  readonly normWeight: Reference;
  readonly normEps?: number | undefined;
  readonly normActivation?: "silu" | "sigmoid" | undefined;
  readonly normOrder?: "norm-then-gate" | "gate-then-norm" | undefined;
  readonly keyHeads: number;
  readonly readSlots?: readonly number[] | undefined;
  readonly writeSlots?: readonly number[] | undefined;
  /** x's format: the convolution's output is rounded to it. Absent: nothing is rounded. */
  readonly format?: Format | undefined;
}

/** The op on plain numbers. */
export function gatedDeltaStep(given: GatedDeltaStepCase): { out: Reference; state: Reference; convState: Reference } {
  const [sequences, valueHeads, valueDim] = dims(given.z, 3) as [number, number, number];
  const keyDim = given.state.shape[3]!;
  const keys = given.keyHeads * keyDim;
  const batch = {
    cuSeqlens: Array.from({ length: sequences + 1 }, (_, s) => s),
    readSlots: given.readSlots,
    writeSlots: given.writeSlots,
  };
  const conv = causalConv1d({
    ...batch,
    x: given.x,
    weight: given.convWeight,
    bias: given.convBias,
    state: given.convState,
    activation: given.convActivation,
  });
  const mixed = given.format ? rounded(given.format, conv.out) : conv.out;
  const delta = gatedDelta({
    ...given,
    ...batch,
    query: reshape(columns(mixed, 0, keys), [sequences, given.keyHeads, keyDim]),
    key: reshape(columns(mixed, keys, 2 * keys), [sequences, given.keyHeads, keyDim]),
    value: reshape(columns(mixed, 2 * keys, mixed.shape[1]!), [sequences, valueHeads, valueDim]),
    out: undefined,
  } as Parameters<typeof gatedDelta>[0]);
  const out = gatedRmsNorm({
    x: delta.out,
    z: given.z,
    weight: given.normWeight,
    eps: given.normEps,
    activation: given.normActivation,
    order: given.normOrder,
  });
  return { out, state: delta.state!, convState: conv.state! };
}
