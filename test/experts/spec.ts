/** Random mixtures: sizes, weight formats, dtypes, and the kinds of the router's logits and of the ids. */
import type { FloatDType, WeightFormat } from "../../lib/index.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import { fill } from "../support/cases.ts";
import type { Random } from "../support/random.ts";
import type { Reference } from "../reference/tensor.ts";

export const weightFormats = Object.keys(weightLayouts) as WeightFormat[];
const dtypes = ["f32", "f16", "bf16"] as const;

const logitKinds = ["normal", "ties", "NaN", "infinite", "one NaN"] as const;
const idKinds = ["routed", "routed", "any", "one expert", "few experts", "wrong"] as const;

/** A mixture. */
export interface Spec {
  readonly tokens: number;
  readonly experts: number;
  readonly k: number;
  readonly inFeatures: number;
  readonly outFeatures: number;
  readonly format: WeightFormat;
  readonly dtype: FloatDType;
  /** The dtype of `out`: the activation's dtype or f32. */
  readonly out: FloatDType;
  readonly logitDType: FloatDType;
  readonly logits: (typeof logitKinds)[number];
  readonly ids: (typeof idKinds)[number];
  /** Whether x has a row for each expert of a token. */
  readonly ranked: boolean;
  readonly normalize: boolean;
  readonly shared: "none" | "whole" | "gated";
  readonly residual: "none" | "apart" | "out";
  /** Whether tensors have gaps between their rows. */
  readonly strided: boolean;
  /** The number of files that hold the experts' matrices; 0 if these lie one after another in memory. */
  readonly files: number;
}

/** The most multiply-adds and weights of a case: float64 in JavaScript takes a few nanoseconds for each. */
const most = { products: 400_000, weights: 100_000 };

/** A number from 1 to `limit`, where small ones are as frequent as large ones. */
const anyCount = (random: Random, limit: number): number => Math.min(limit, Math.floor(2 ** random.uniform(0, Math.log2(limit + 1))));

export function anySpec(random: Random): Spec {
  const format = random.pick(weightFormats);
  const experts = random.uniform() < 0.05 ? random.pick([512, 1024]) : anyCount(random, 300);
  const k = random.uniform() < 0.1 ? experts : anyCount(random, Math.min(experts, 40));
  const wanted = random.uniform() < 0.05 ? 0 : random.uniform() < 0.3 ? anyCount(random, 8) : anyCount(random, 300);
  const { elements } = weightLayouts[format];
  const multiple = elements === 1 ? 1 : elements;
  const inFeatures = multiple * anyCount(random, Math.max(1, Math.floor(Math.min(300, most.weights / experts) / multiple)));
  const outFeatures = anyCount(random, Math.max(1, Math.min(80, Math.floor(most.weights / experts / inFeatures))));
  const tokens = Math.min(wanted, Math.max(1, Math.floor(most.products / (k * Math.max(inFeatures, 16) * outFeatures))));
  const dtype = random.pick(dtypes);
  return {
    tokens, experts, k, inFeatures, outFeatures, format, dtype,
    out: random.uniform() < 0.5 ? dtype : "f32",
    logitDType: random.pick(dtypes),
    logits: random.uniform() < 0.5 ? "normal" : random.pick(logitKinds),
    ids: random.pick(idKinds),
    ranked: random.uniform() < 0.5,
    normalize: random.uniform() < 0.5,
    shared: random.pick(["none", "whole", "gated"]),
    residual: random.pick(["none", "apart", "out"]),
    strided: random.uniform() < 0.7,
    files: random.uniform() < 0.2 ? 1 + random.below(4) : 0,
  };
}

/** The spec in a line. */
export function textOfSpec({ tokens, experts, k, inFeatures, outFeatures, format, dtype, logits, ids, ranked }: Spec): string {
  return `${tokens} tokens, ${k} of ${experts} experts of ${outFeatures} by ${inFeatures} ${format}, ${dtype} rows ${ranked ? "of experts" : "of tokens"}, ${logits} logits, ${ids} ids`;
}

export function anyLogits(random: Random, { tokens, experts, logitDType, logits }: Spec): Reference {
  const at = random.below(Math.max(tokens * experts, 1));
  let i = 0;
  const value = (): number => {
    const plain = 4 * random.normal();
    const here = i++;
    if (logits === "ties") return random.below(4) - 1;
    if (logits === "NaN") return random.uniform() < 0.2 ? NaN : plain;
    if (logits === "infinite") return random.uniform() < 0.2 ? random.pick([Infinity, -Infinity, 3e38, -3e38]) : plain;
    return logits === "one NaN" && here === at ? NaN : plain;
  };
  return fill([tokens, experts], logitDType, value);
}

/** Ids of a kind; `routed` are those from the router. */
export function anyIds(random: Random, { tokens, k, experts, ids }: Spec, routed: Int32Array): Int32Array {
  if (ids === "routed") return routed;
  const few = Array.from({ length: 3 }, () => random.below(experts));
  return Int32Array.from({ length: tokens * k }, () => {
    if (ids === "one expert") return few[0]!;
    if (ids === "few experts") return random.pick(few);
    if (ids === "wrong" && random.uniform() < 0.1) return random.pick([-1, experts, experts + 1, 2 ** 31 - 1, -(2 ** 31)]);
    return random.below(experts);
  });
}

/**
 * Numbers whose products with powers of two add up without rounding in float64, and with rounding in float32: the sum of a few
 * reveals the order of the additions.
 */
export function telling(random: Random): number {
  return (random.below(63) - 31) * 2 ** (random.below(31) - 15);
}
