/** Random layers: their weights, checkpoints of them in the published forms, and their results in float64. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { encode } from "../../lib/tensor/dtype.ts";
import { GatedDeltaNet, StatePool } from "../../lib/index.ts";
import type { Device, FloatDType, GatedDeltaError, GatedDeltaNetOptions } from "../../lib/index.ts";
import { fileDTypes, writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { mix, projectSplit } from "../reference/layer.ts";
import { rounded } from "../reference/rounding.ts";
import { reference, rows } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { thrownBy } from "./devices.ts";
import { scratch } from "./files.ts";
import { Random } from "./random.ts";

const { newPath } = scratch();

/** Sizes of a layer, under `config.json`'s names. */
export interface RandomLayerConfig {
  readonly hidden_size: number;
  readonly linear_num_key_heads: number;
  readonly linear_num_value_heads: number;
  readonly linear_key_head_dim: number;
  readonly linear_value_head_dim: number;
  readonly linear_conv_kernel_dim: number;
  readonly rms_norm_eps?: number;
  readonly output_gate_type?: string;
  readonly [key: string]: unknown;
}

/** A small layer with three value heads for each key head. */
export const smallConfig: RandomLayerConfig = {
  hidden_size: 48,
  linear_num_key_heads: 2,
  linear_num_value_heads: 6,
  linear_key_head_dim: 16,
  linear_value_head_dim: 24,
  linear_conv_kernel_dim: 4,
};

/** Weights by the name after `linear_attn.`, in Qwen3.5's form. */
export type LayerWeights = ReadonlyMap<string, Reference>;

/** Weights like those of a trained layer: projections keep a signal's size, decays lie between 0.2 and 1. */
export function randomWeights(random: Random, config: RandomLayerConfig, dtype: FloatDType): LayerWeights {
  const { hidden_size: hidden, linear_num_key_heads: keyHeads, linear_num_value_heads: valueHeads } = config;
  const { linear_key_head_dim: keyDim, linear_value_head_dim: valueDim, linear_conv_kernel_dim: width } = config;
  const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
  const values = valueHeads * valueDim;
  const make = (shape: readonly number[], next: () => number) => {
    const tensor = reference(shape);
    return rounded(dtype, { shape, data: tensor.data.map(next) });
  };
  const projection = (to: number, from: number) => make([to, from], () => random.normal() / Math.sqrt(from));
  return new Map([
    ["in_proj_qkv.weight", projection(channels, hidden)],
    ["in_proj_z.weight", projection(values, hidden)],
    ["in_proj_b.weight", projection(valueHeads, hidden)],
    ["in_proj_a.weight", projection(valueHeads, hidden)],
    ["conv1d.weight", make([channels, 1, width], () => random.normal() / 2)],
    ["A_log", make([valueHeads], () => random.uniform(-2, 1))],
    ["dt_bias", make([valueHeads], () => random.uniform(-3, 0))],
    ["norm.weight", make([valueDim], () => random.uniform(0.5, 1.5))],
    ["out_proj.weight", projection(hidden, values)],
  ]);
}

/** The same weights in Qwen3-Next's form: input projections interleaved by key head. */
export function interleaved(config: RandomLayerConfig, weights: LayerWeights): LayerWeights {
  const { linear_num_key_heads: keyHeads, linear_num_value_heads: valueHeads } = config;
  const { linear_key_head_dim: keyDim, linear_value_head_dim: valueDim } = config;
  const ratio = valueHeads / keyHeads;
  const wide = ratio * valueDim;
  const of = (name: string) => weights.get(name)!;
  const qkvz: Reference[] = [];
  const ba: Reference[] = [];
  for (let head = 0; head < keyHeads; head++) {
    const part = (name: string, start: number, size: number) => rows(of(name), start + head * size, start + (head + 1) * size);
    qkvz.push(part("in_proj_qkv.weight", 0, keyDim));
    qkvz.push(part("in_proj_qkv.weight", keyHeads * keyDim, keyDim));
    qkvz.push(part("in_proj_qkv.weight", 2 * keyHeads * keyDim, wide));
    qkvz.push(part("in_proj_z.weight", 0, wide));
    ba.push(part("in_proj_b.weight", 0, ratio), part("in_proj_a.weight", 0, ratio));
  }
  const others = [...weights].filter(([name]) => !name.startsWith("in_proj_"));
  return new Map([["in_proj_qkvz.weight", stacked(qkvz)], ["in_proj_ba.weight", stacked(ba)], ...others]);
}

function stacked(parts: readonly Reference[]): Reference {
  const columns = parts[0]!.shape[1]!;
  return reference([parts.reduce((sum, { shape }) => sum + shape[0]!, 0), columns], parts.flatMap(({ data }) => [...data]));
}

/** Weights as tensors of a file. */
export function tensorsOf(weights: LayerWeights, dtype: FloatDType, prefix: string): Record<string, TensorToWrite> {
  const entries = [...weights].map(([name, { shape, data }]) => {
    return [prefix + name, { dtype: fileDTypes[dtype], shape, data: encode(dtype, data) }] as const;
  });
  return Object.fromEntries(entries);
}

/** The usual prefix of layer N. */
export const prefixOf = (layer: number) => `model.layers.${layer}.linear_attn.`;

/** One file with one layer; its configuration is in the metadata. */
export function writeLayer(
  config: RandomLayerConfig,
  weights: LayerWeights,
  dtype: FloatDType,
  { prefix = prefixOf(0), more = {} }: { prefix?: string; more?: Record<string, TensorToWrite> } = {},
): string {
  const path = newPath("model.safetensors");
  writeSafetensors(path, { ...tensorsOf(weights, dtype, prefix), ...more }, { config: JSON.stringify(config) });
  return path;
}

/** A random layer, loaded from a file. */
export function loadRandom(
  device: Device,
  config: RandomLayerConfig,
  seed: number,
  dtype: FloatDType = "f32",
  options: Partial<GatedDeltaNetOptions> = {},
): { layer: GatedDeltaNet; weights: LayerWeights } {
  const weights = randomWeights(new Random(seed), config, dtype);
  const path = writeLayer(config, weights, dtype);
  return { weights, layer: GatedDeltaNet.load(device, path, { layer: 0, ...options }) };
}

/** A folder with config.json, an index and two shards, of a model whose layer `layer` is this one. */
export function writeSharded(folder: string, config: object, weights: LayerWeights, dtype: FloatDType, prefix: string): void {
  const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] as const;
  const all = Object.entries(tensorsOf(weights, dtype, prefix));
  const map: Record<string, string> = {};
  shards.forEach((shard, i) => {
    const part = all.filter((_, at) => at % 2 === i);
    for (const [name] of part) map[name] = shard;
    writeSafetensors(join(folder, shard), Object.fromEntries(part));
  });
  writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify({ metadata: { total_size: 1 }, weight_map: map }));
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
}

/** The float64 result for a packed batch whose sequences all start from zero: `[tokens, hidden]`. */
export function expectedOutput(
  config: RandomLayerConfig,
  weights: LayerWeights,
  hidden: Reference,
  cuSeqlens: readonly number[],
): Reference {
  const weight = (name: string) => weights.get(name)!;
  const sizes = {
    keyHeads: config.linear_num_key_heads,
    valueHeads: config.linear_num_value_heads,
    keyDim: config.linear_key_head_dim,
    valueDim: config.linear_value_head_dim,
    normEps: config.rms_norm_eps ?? 1e-6,
    outputGate: config.output_gate_type === "sigmoid" ? "sigmoid" : "silu",
  } as const;
  return mix(projectSplit(hidden, weight), weight, sizes, { cuSeqlens }).out;
}

/** Loading on a device, for tests of layers that may or may not be loaded; their `hidden_size` is 48. */
export function loadingOn(device: Device) {
  return {
    /** Loads a layer, runs one token, and returns the output, which would differ with other weights. */
    outputOf(files: string | readonly string[], options: Partial<GatedDeltaNetOptions> = {}): Float32Array {
      using layer = GatedDeltaNet.load(device, files, { layer: 0, ...options });
      using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
      using handle = pool.allocate();
      using hidden = device.tensorFrom("f32", [1, 48], Array.from({ length: 48 }, (_, i) => Math.sin(i)));
      using out = device.tensor("f32", [1, 48]);
      pool.run([handle], (step) => layer.decode({ hidden, out, step }));
      device.wait();
      return out.data.slice();
    },
    /** The error of a load that must fail. */
    refused(files: string | readonly string[], options: object = { layer: 0 }): GatedDeltaError {
      return thrownBy(() => GatedDeltaNet.load(device, files, options as GatedDeltaNetOptions)[Symbol.dispose]());
    },
  };
}
