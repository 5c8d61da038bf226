/**
 * Writes a folder with a random Qwen3.5 text model, for measurements and tests: equal options give equal bytes.
 *
 *     bun bench/model/random-model.ts FOLDER [--form bf16|f16|f32|2bit|3bit|4bit|5bit|6bit|8bit] [--group 64] [--tiny | --large | --experts]
 *                                            [--layers N] [--seed N]
 *
 * It has the shape of Qwen3.5-0.8B; with `--large`, a larger one (4 GB in 4 bits), and with `--experts`, that of Qwen3.5-35B-A3B with 8
 * of its 40 layers (4.4 GB in 4 bits). Plain forms are as transformers saves a text model, with experts as released; quantised ones are as
 * mlx-lm converts one: norms stored as 1 + w, conv1d's axes moved, every matrix quantised, routers and gates of shared experts in 8 bits.
 * Weights keep a signal's size, so that logits are of order one. No more than the layers of one file are in memory at a time.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { FloatDType } from "../../lib/index.ts";
import { encode } from "../../lib/tensor/dtype.ts";
import { fileDTypes, writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { frameParts, large, layerParts, qwen08B, qwen35BA3B, tiny, type ModelShape, type Part } from "./model-shape.ts";

/** How a model's weights are stored. */
export type ModelForm =
  | { readonly dtype: FloatDType; readonly bits?: undefined }
  | { readonly bits: number; readonly group: number; readonly dtype: FloatDType };

/** The model to write. */
export interface RandomModelOptions {
  readonly shape: ModelShape;
  readonly form: ModelForm;
  readonly seed: number;
}

/** Layers per file: a released model of this size is one file, but then all of it would be in memory here. */
const layersPerFile = ({ experts }: ModelShape) => (experts === undefined ? 4 : 1);

/** Numbers from a 32-bit xorshift generator (Marsaglia, "Xorshift RNGs", 2003), seeded by a name and a number. */
class Numbers {
  #state: number;

  constructor(name: string, seed: number) {
    let state = 0x811c9dc5 ^ seed; // FNV-1a
    for (let i = 0; i < name.length; i++) state = Math.imul(state ^ name.charCodeAt(i), 0x01000193);
    this.#state = state === 0 ? 1 : state;
    for (let i = 0; i < 8; i++) this.word();
  }

  word(): number {
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (this.#state = x) >>> 0;
  }

  /** Numbers with mean 0 and the given deviation. */
  around(count: number, mean: number, deviation: number): Float32Array {
    const size = (Math.sqrt(12) * deviation) / 2 ** 32;
    const out = new Float32Array(count);
    for (let i = 0; i < count; i++) out[i] = mean + (this.word() - 2 ** 31) * size;
    return out;
  }
}

/** Writes the folder; its old contents are removed. */
export function writeRandomModel(folder: string, { shape, form, seed }: RandomModelOptions): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const mlx = form.bits !== undefined;
  const root = mlx ? "language_model.model." : "model.";
  const files: Part[][] = [frameParts(shape, root)];
  for (let layer = 0; layer < shape.num_hidden_layers; layer++) {
    if (layer % layersPerFile(shape) === 0 && layer > 0) files.push([]);
    files.at(-1)!.push(...layerParts(shape, root, layer, mlx));
  }
  const map: Record<string, string> = {};
  files.forEach((parts, i) => {
    const number = (n: number) => String(n).padStart(5, "0");
    const file = files.length === 1 ? "model.safetensors" : `model-${number(i + 1)}-of-${number(files.length)}.safetensors`;
    const tensors = Object.fromEntries(parts.flatMap((part) => tensorsOf(part, form, new Numbers(part.name, seed))));
    for (const name of Object.keys(tensors)) map[name] = file;
    writeSafetensors(join(folder, file), tensors, { format: mlx ? "mlx" : "pt" });
  });
  if (files.length > 1) writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify({ metadata: {}, weight_map: map }));
  const modules = files.flat().flatMap(({ name, role }) => (role === "matrix" ? [name] : []));
  writeFileSync(join(folder, "config.json"), JSON.stringify(configOf(shape, form, modules), undefined, 2));
  writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ eos_token_id: [2, 0] }));
}

function configOf(shape: ModelShape, form: ModelForm, modules: readonly string[]): object {
  const { full_attention_interval: interval, intermediate_size, experts, ...sizes } = shape;
  const types = Array.from({ length: shape.num_hidden_layers }, (_, i) => ((i + 1) % interval === 0 ? "full_attention" : "linear_attention"));
  const text = {
    ...sizes,
    ...(experts ?? { intermediate_size }),
    model_type: experts === undefined ? "qwen3_5_text" : "qwen3_5_moe_text",
    layer_types: types,
    hidden_act: "silu",
    attention_bias: false,
    rms_norm_eps: 1e-6,
    rope_parameters: { rope_type: "default", rope_theta: 10_000_000, partial_rotary_factor: 0.25 },
    eos_token_id: 2,
  };
  const name = experts === undefined ? "Qwen3_5" : "Qwen3_5Moe";
  if (form.bits === undefined) return { architectures: [`${name}ForCausalLM`], ...text };
  const others = modules.filter((module) => gates.test(module)).map((module) => [module, { group_size: form.group, bits: gateBits }]);
  const quantization = { group_size: form.group, bits: form.bits, mode: "affine", ...Object.fromEntries(others) };
  const { tie_word_embeddings } = shape;
  return { model_type: experts === undefined ? "qwen3_5" : "qwen3_5_moe", text_config: text, tie_word_embeddings, quantization, quantization_config: quantization };
}

function tensorsOf(part: Part, form: ModelForm, numbers: Numbers): [string, TensorToWrite][] {
  const { name, role, shape } = part;
  if (role === "matrix") return form.bits === undefined ? [plainMatrix(part, form.dtype, numbers)] : quantisedMatrix(part, form, numbers);
  const count = shape.reduce((product, size) => product * size, 1);
  const mlx = form.bits !== undefined;
  const around = {
    norm: [mlx ? 1 : 0, 0.1],
    "gated norm": [1, 0.1],
    convolution: [0, 0.5],
    A_log: [0, 1],
    dt_bias: [-3, 1],
  }[role] as [number, number];
  // conv1d has a middle dimension: [channels, 1, taps], or [channels, taps, 1] in MLX.
  const [channels = 0, taps = 0] = shape;
  const stored = role !== "convolution" ? shape : mlx ? [channels, taps, 1] : [channels, 1, taps];
  return [[name, { dtype: fileDTypes[form.dtype], shape: stored, data: encode(form.dtype, numbers.around(count, ...around)) }]];
}

/** Routers, and gates of shared experts, which mlx-lm quantises in 8 bits. */
const gates = /\.mlp\.(?:gate|shared_expert_gate)$/;
const gateBits = 8;

/** The length of a row, and the number of rows in all other dimensions. */
function rowsOf(shape: readonly number[]): [rows: number, columns: number] {
  return [shape.slice(0, -1).reduce((product, size) => product * size, 1), shape.at(-1) ?? 0];
}

function plainMatrix({ name, shape }: Part, dtype: FloatDType, numbers: Numbers): [string, TensorToWrite] {
  const [rows, columns] = rowsOf(shape);
  const deviation = name.endsWith("embed_tokens") ? 1 : 1 / Math.sqrt(columns);
  // Row by row: a whole table in float32 would take as much memory as all weights in bf16.
  const data = Array.from({ length: Math.ceil(rows / 1024) }, (_, i) => {
    return encode(dtype, numbers.around(Math.min(1024, rows - i * 1024) * columns, 0, deviation));
  });
  return [name.includes(".experts.") ? name : `${name}.weight`, { dtype: fileDTypes[dtype], shape, data }];
}

function quantisedMatrix({ name, shape }: Part, { bits: most, group, dtype }: Extract<ModelForm, { bits: number }>, numbers: Numbers): [string, TensorToWrite][] {
  const [rows, columns] = rowsOf(shape);
  const bits = gates.test(name) ? gateBits : most;
  const words = new Uint32Array((rows * columns * bits) / 32);
  for (let i = 0; i < words.length; i++) words[i] = numbers.word();
  // Random numbers with this many bits have the deviation sqrt((4^bits - 1) / 12).
  const deviation = (name.endsWith("embed_tokens") ? 1 : 1 / Math.sqrt(columns)) / Math.sqrt((4 ** bits - 1) / 12);
  const groups = (rows * columns) / group;
  const scales = numbers.around(groups, deviation, deviation / 10);
  const floats = (data: Float32Array): TensorToWrite => ({ dtype: fileDTypes[dtype], shape: [...shape.slice(0, -1), columns / group], data: encode(dtype, data) });
  return [
    [`${name}.weight`, { dtype: "U32", shape: [...shape.slice(0, -1), (columns * bits) / 32], data: words }],
    [`${name}.scales`, floats(scales)],
    [`${name}.biases`, floats(scales.map((scale) => (-scale * (2 ** bits - 1)) / 2))],
  ];
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      form: { type: "string", default: "bf16" },
      group: { type: "string", default: "64" },
      tiny: { type: "boolean", default: false },
      large: { type: "boolean", default: false },
      experts: { type: "boolean", default: false },
      layers: { type: "string" },
      seed: { type: "string", default: "1" },
    },
  });
  const [folder] = positionals;
  const [, bits] = /^([234568])bit$/.exec(values.form) ?? [];
  const plain = (["f32", "f16", "bf16"] as const).find((dtype) => dtype === values.form);
  if (folder === undefined || (bits === undefined && plain === undefined)) {
    console.error("usage: random-model.ts FOLDER [--form bf16|f16|f32|4bit|…] [--group 64] [--tiny | --large | --experts] [--layers N] [--seed N]");
    process.exit(2);
  }
  const base = values.tiny ? tiny : values.large ? large : values.experts ? qwen35BA3B : qwen08B;
  const shape = values.layers === undefined ? base : { ...base, num_hidden_layers: Number(values.layers) };
  const form: ModelForm = plain === undefined ? { bits: Number(bits), group: Number(values.group), dtype: "bf16" } : { dtype: plain };
  writeRandomModel(folder, { shape, form, seed: Number(values.seed) });
}
