/**
 * A whole Gated DeltaNet mixer as Hugging Face's Qwen3.5 and Qwen3-Next run it (transformers,
 * models/qwen3_5 and models/qwen3_next): projections, convolution, recurrence, gated norm, output projection.
 */
import { causalConv1d } from "./causal-conv1d.ts";
import type { BatchOptions } from "./batch.ts";
import { gatedDelta } from "./gated-delta.ts";
import { gatedRmsNorm } from "./gated-rms-norm.ts";
import { linear } from "./linear.ts";
import { columns, reference, reshape } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export interface LayerConfig {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly normEps: number;
  readonly outputGate: "silu" | "sigmoid";
  /** One decay per head, or one per key dimension if it is `key`. */
  readonly gateDims?: "head" | "key";
  /** L of bounded decays. */
  readonly gateBound?: number | undefined;
  readonly betaForm?: "sigmoid" | "2-sigmoid";
}

/** Everything before the convolution, in which the two families have nothing in common. */
export interface Projected {
  /** `[tokens, 2 Hk Dk + Hv Dv]`, query | key | value */
  readonly qkv: Reference;
  /** `[tokens, Hv Dv]` */
  readonly z: Reference;
  /** `[tokens, Hv]` */
  readonly b: Reference;
  /** `[tokens, Hv]`, or `[tokens, Hv Dk]` if each key dimension has its own gate */
  readonly a: Reference;
}

/** Reads a weight by its name after `linear_attn.`. */
export type Weights = (name: string) => Reference;

/** Qwen3.5: four projections. */
export function projectSplit(hidden: Reference, weights: Weights): Projected {
  return {
    qkv: linear(hidden, weights("in_proj_qkv.weight")),
    z: linear(hidden, weights("in_proj_z.weight")),
    b: linear(hidden, weights("in_proj_b.weight")),
    a: linear(hidden, weights("in_proj_a.weight")),
  };
}

/**
 * Qwen3-Next: two projections whose outputs are interleaved by key head. For each key head of the first: query Dk,
 * key Dk, value r Dv, z r Dv; of the second: b r, a r, where r = Hv / Hk.
 */
export function projectInterleaved(hidden: Reference, weights: Weights, config: LayerConfig): Projected {
  const { keyHeads, valueHeads, keyDim, valueDim } = config;
  const ratio = valueHeads / keyHeads;
  const qkvz = linear(hidden, weights("in_proj_qkvz.weight"));
  const ba = linear(hidden, weights("in_proj_ba.weight"));
  /** One part of every key head's group, side by side. */
  const gather = (from: Reference, group: number, start: number, width: number) =>
    sideBySide(Array.from({ length: keyHeads }, (_, h) => columns(from, h * group + start, h * group + start + width)));
  const wide = ratio * valueDim;
  const group = 2 * keyDim + 2 * wide;
  return {
    qkv: sideBySide([
      gather(qkvz, group, 0, keyDim),
      gather(qkvz, group, keyDim, keyDim),
      gather(qkvz, group, 2 * keyDim, wide),
    ]),
    z: gather(qkvz, group, 2 * keyDim + wide, wide),
    b: gather(ba, 2 * ratio, 0, ratio),
    a: gather(ba, 2 * ratio, ratio, ratio),
  };
}

function sideBySide(parts: readonly Reference[]): Reference {
  const count = parts[0]!.shape[0]!;
  const width = parts.reduce((sum, part) => sum + part.shape[1]!, 0);
  const out = reference([count, width]);
  for (let r = 0; r < count; r++) {
    let at = r * width;
    for (const part of parts) {
      const size = part.shape[1]!;
      out.data.set(part.data.subarray(r * size, (r + 1) * size), at);
      at += size;
    }
  }
  return out;
}

export interface LayerState {
  /** `[slots, C, K - 1]` */
  readonly conv: Reference;
  /** `[slots, Hv, Dv, Dk]` */
  readonly recurrent: Reference;
}

/** Everything after the projections: `[tokens, hidden]` and the pools after. */
export function mix(
  projected: Projected,
  weights: Weights,
  config: LayerConfig,
  batch: BatchOptions,
  before?: LayerState,
): { out: Reference; core: Reference; state: LayerState | undefined } {
  const { keyHeads, valueHeads, keyDim, valueDim } = config;
  const tokens = projected.qkv.shape[0]!;
  const keys = keyHeads * keyDim;
  const weight = weights("conv1d.weight");
  const conv = causalConv1d({
    ...batch,
    x: projected.qkv,
    weight: reshape(weight, [weight.shape[0]!, weight.shape.at(-1)!]),
    state: before?.conv,
  });
  const delta = gatedDelta({
    ...batch,
    query: reshape(columns(conv.out, 0, keys), [tokens, keyHeads, keyDim]),
    key: reshape(columns(conv.out, keys, 2 * keys), [tokens, keyHeads, keyDim]),
    value: reshape(columns(conv.out, 2 * keys, conv.out.shape[1]!), [tokens, valueHeads, valueDim]),
    gate: config.gateDims === "key" ? reshape(projected.a, [tokens, valueHeads, keyDim]) : projected.a,
    gateForm: config.gateBound === undefined ? "raw" : "raw-bounded",
    gateBound: config.gateBound,
    aLog: weights("A_log"),
    dtBias: weights("dt_bias"),
    beta: projected.b,
    betaForm: config.betaForm ?? "sigmoid",
    headMap: "block",
    qkNorm: "l2",
    state: before?.recurrent,
  });
  const normed = gatedRmsNorm({
    x: delta.out,
    z: reshape(projected.z, [tokens, valueHeads, valueDim]),
    weight: weights("norm.weight"),
    eps: config.normEps,
    activation: config.outputGate,
  });
  const core = reshape(normed, [tokens, valueHeads * valueDim]);
  const state = conv.state && delta.state && { conv: conv.state, recurrent: delta.state };
  return { out: linear(core, weights("out_proj.weight")), core, state };
}
