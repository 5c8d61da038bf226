/**
 * The four in-place ops with ggml's semantics: heads tiled, gate in log form, output scaled by 1/√S, and sequence s
 * writing cell rsHead + s of the cache.
 */
import { causalConv1d } from "./causal-conv1d.ts";
import { gatedDelta } from "./gated-delta.ts";
import { dims, reference, reshape } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export interface GatedDeltaNetCase {
  /** `[B, T, Hk, S]` */
  readonly q: Reference;
  readonly k: Reference;
  /** `[B, T, Hv, S]` */
  readonly v: Reference;
  /** `[B, T, Hv]` or, per key dimension, `[B, T, Hv, S]` */
  readonly gate: Reference;
  readonly beta: Reference;
  /** `[slots, Hv, S(value), S(key)]` before the op. */
  readonly cache: Reference;
  /** The cell each sequence reads; absent: the one it writes. */
  readonly ids?: readonly number[] | undefined;
  readonly rsHead: number;
  /** `[K, B, Hv, S, S]` before the op. */
  readonly snapshots?: Reference | undefined;
  readonly decayFormat?: "f64" | "f32" | undefined;
}

/** `gated_delta_net_inplace` and, with ids, `gated_delta_net_inplace_ids`. */
export function gatedDeltaNet(given: GatedDeltaNetCase): { out: Reference; cache: Reference; snapshots: Reference | undefined } {
  const [sequences, tokens, , size] = dims(given.q, 4) as [number, number, number, number];
  const flat = (tensor: Reference) => reshape(tensor, [sequences * tokens, ...tensor.shape.slice(2)]);
  const writeSlots = Array.from({ length: sequences }, (_, s) => given.rsHead + s);
  const { out, state, snapshots } = gatedDelta({
    query: flat(given.q),
    key: flat(given.k),
    value: flat(given.v),
    gate: flat(given.gate),
    beta: flat(given.beta),
    state: given.cache,
    cuSeqlens: Array.from({ length: sequences + 1 }, (_, s) => s * tokens),
    readSlots: given.ids ?? writeSlots,
    writeSlots,
    gateForm: "log",
    headMap: "tiled",
    scale: 1 / Math.sqrt(size),
    snapshots: given.snapshots,
    decayFormat: given.decayFormat,
  });
  return { out: reshape(out, given.v.shape), cache: state ?? reference([0]), snapshots };
}

export interface SsmConvUpdateCase {
  /** `[B, C]` */
  readonly x: Reference;
  /** `[C, K]` */
  readonly weight: Reference;
  /** `[cells, C, K - 1]` before the op. */
  readonly cache: Reference;
  readonly ids?: readonly number[] | undefined;
  readonly rsHead: number;
  readonly silu: boolean;
}

/** `ssm_conv_update_inplace` and, with ids, `ssm_conv_update_inplace_ids`: one token of every sequence. */
export function ssmConvUpdate(given: SsmConvUpdateCase): { out: Reference; cache: Reference } {
  const sequences = given.x.shape[0]!;
  const writeSlots = Array.from({ length: sequences }, (_, s) => given.rsHead + s);
  const { out, state } = causalConv1d({
    x: given.x,
    weight: given.weight,
    state: given.cache,
    cuSeqlens: Array.from({ length: sequences + 1 }, (_, s) => s),
    readSlots: given.ids ?? writeSlots,
    writeSlots,
    activation: given.silu ? "silu" : "none",
  });
  return { out, cache: state ?? reference([0]) };
}
