/** Random mixers in the forms of OLMo hybrid, Kimi Linear, GLM-5-next and Bailing hybrid, and their results in float64. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { encode } from "../../lib/tensor/dtype.ts";
import type { FloatDType } from "../../lib/index.ts";
import { fileDTypes, writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { mix, type LayerConfig } from "../reference/layer.ts";
import { linear } from "../reference/linear.ts";
import { rounded } from "../reference/rounding.ts";
import { columns, reference, reshape } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import type { Random } from "./random.ts";

/** Sizes and options of a mixer. */
export interface SeparateShape extends LayerConfig {
  readonly hidden: number;
  readonly width: number;
  /** Ranks of the decay's and of the output gate's projection; absent: full rank. */
  readonly ranks?: { readonly f?: number; readonly g?: number };
  /** Names of the output projection and of the mixer, and the shape of A_log if it is not `[heads]`. */
  readonly output?: string;
  readonly aLogShape?: readonly number[];
  readonly convShape?: (channels: number, width: number) => readonly number[];
}

/** Weights by the name after that of the mixer. */
export type SeparateWeights = ReadonlyMap<string, Reference>;

/** Weights like those of a trained mixer: projections keep a signal's size. */
export function separateWeights(random: Random, shape: SeparateShape, dtype: FloatDType): SeparateWeights {
  const { hidden, keyHeads, keyDim, valueHeads, valueDim, width, ranks = {} } = shape;
  const [keys, values] = [keyHeads * keyDim, valueHeads * valueDim];
  const make = (size: readonly number[], next: () => number) => rounded(dtype, { shape: size, data: reference(size).data.map(next) });
  const projection = (to: number, from: number) => make([to, from], () => random.normal() / Math.sqrt(from));
  const perKey = shape.gateDims === "key";
  const gates = perKey ? valueHeads * keyDim : valueHeads;
  const all = new Map<string, Reference>([
    ["q_proj.weight", projection(keys, hidden)],
    ["k_proj.weight", projection(keys, hidden)],
    ["v_proj.weight", projection(values, hidden)],
    ["b_proj.weight", projection(valueHeads, hidden)],
    ["A_log", make(shape.aLogShape ?? [valueHeads], () => random.uniform(-2, 1))],
    ["dt_bias", make([gates], () => random.uniform(-3, 0))],
    ["o_norm.weight", make([valueDim], () => random.uniform(0.5, 1.5))],
    [`${shape.output ?? "o_proj"}.weight`, projection(hidden, values)],
  ]);
  const convShape = shape.convShape ?? ((channels, taps) => [channels, 1, taps]);
  for (const [name, channels] of [["q", keys], ["k", keys], ["v", values]] as const) {
    all.set(`${name}_conv1d.weight`, make(convShape(channels, width), () => random.normal() / 2));
  }
  const lowRank = (name: "f" | "g", rows: number) => {
    const rank = ranks[name];
    if (rank === undefined) all.set(`${name}_proj.weight`, projection(rows, hidden));
    else all.set(`${name}_a_proj.weight`, projection(rank, hidden)).set(`${name}_b_proj.weight`, projection(rows, rank));
  };
  if (perKey) lowRank("f", gates);
  else all.set("a_proj.weight", projection(gates, hidden));
  lowRank("g", values);
  return all;
}

/** The float64 result of a packed batch whose sequences all start from zero: `[tokens, hidden]`. */
export function separateOutput(shape: SeparateShape, weights: SeparateWeights, hidden: Reference, cuSeqlens: readonly number[]): Reference {
  const of = (name: string) => weights.get(name)!;
  const product = (name: string) => {
    const down = weights.get(`${name}_a_proj.weight`);
    return down ? linear(linear(hidden, down), of(`${name}_b_proj.weight`)) : linear(hidden, of(`${name}_proj.weight`));
  };
  const convolutions = ["q", "k", "v"].map((name) => of(`${name}_conv1d.weight`));
  const channels = convolutions.reduce((sum, { shape: [own] }) => sum + own!, 0);
  const aliases: Record<string, Reference> = {
    "conv1d.weight": reference([channels, shape.width], convolutions.flatMap(({ data }) => [...data])),
    "norm.weight": of("o_norm.weight"),
    "out_proj.weight": of(`${shape.output ?? "o_proj"}.weight`),
    "A_log": reshape(of("A_log"), [shape.valueHeads]),
  };
  const qkv = sideBySide(["q", "k", "v"].map((name) => linear(hidden, of(`${name}_proj.weight`))));
  const projected = { qkv, z: product("g"), b: linear(hidden, of("b_proj.weight")), a: product(shape.gateDims === "key" ? "f" : "a") };
  return mix(projected, (name) => aliases[name] ?? of(name), shape, { cuSeqlens }).out;
}

function sideBySide(parts: readonly Reference[]): Reference {
  const count = parts[0]!.shape[0]!;
  const width = parts.reduce((sum, { shape }) => sum + shape[1]!, 0);
  const out = reference([count, width]);
  let at = 0;
  for (const part of parts) {
    const own = part.shape[1]!;
    for (let row = 0; row < count; row++) out.data.set(columns(part, 0, own).data.subarray(row * own, (row + 1) * own), row * width + at);
    at += own;
  }
  return out;
}

/** A folder with the mixer of one layer and the configuration. */
export function writeMixer(
  folder: string,
  config: object,
  weights: SeparateWeights,
  dtype: FloatDType,
  prefix: string,
  change: (tensors: Record<string, TensorToWrite>) => void = () => {},
): string {
  mkdirSync(folder, { recursive: true });
  const entries = [...weights].map(([name, { shape, data }]) => {
    return [prefix + name, { dtype: fileDTypes[dtype], shape, data: encode(dtype, data) }] as const;
  });
  const tensors: Record<string, TensorToWrite> = Object.fromEntries(entries);
  change(tensors);
  writeSafetensors(join(folder, "model.safetensors"), tensors);
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  return folder;
}
