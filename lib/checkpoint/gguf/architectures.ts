/**
 * The configuration of a GGUF file's model, with the keys of transformers: the families of models read it as they read a
 * `config.json`. Keys: llama.cpp, `src/llama-arch.cpp`, `src/models/qwen35.cpp`, `qwen35moe.cpp` and `qwen3next.cpp`.
 */
import { FileError, UnsupportedError, describe } from "../../errors.ts";
import type { Metadata } from "./metadata.ts";
import type { Blocks } from "./names.ts";

/** An architecture. */
interface Architecture {
  /** The `model_type` of transformers. */
  readonly modelType: string;
  /** The order of value heads: the converter reorders those of Qwen3.5. */
  readonly valueHeads: "block" | "tiled";
  readonly experts: boolean;
}

const architectures: Readonly<Record<string, Architecture>> = {
  qwen35: { modelType: "qwen3_5_text", valueHeads: "tiled", experts: false },
  qwen35moe: { modelType: "qwen3_5_moe_text", valueHeads: "tiled", experts: true },
  qwen3next: { modelType: "qwen3_next", valueHeads: "block", experts: true },
};

/** Settings that change results and that these models do not have, each with the values that change nothing in llama.cpp. */
const foreign: Readonly<Record<string, readonly (number | string | boolean)[]>> = {
  "attention.scale": [0],
  "attention.causal": [true],
  "attention.sliding_window": [0],
  "attention.max_alibi_bias": [0],
  "attention.clamp_kqv": [0],
  attn_logit_softcapping: [0],
  final_logit_softcapping: [0],
  logit_scale: [1],
  embedding_scale: [1],
  residual_scale: [1],
  expert_weights_scale: [0, 1],
  expert_weights_norm: [true],
  expert_gating_func: [1],
  expert_group_count: [0, 1],
  expert_group_used_count: [0, 1],
  // Linear scaling is scaling by the factor.
  "rope.scaling.type": ["none", "linear"],
  "rope.scaling.factor": [1, 0],
  "rope.scaling.attn_factor": [1],
  "rope.scale_linear": [1, 0], // the factor's old name
};

/** The end tokens that a file's keys name. */
export const endNames = ["eos", "eot", "eom"] as const;

/** Sizes are far below this. */
const largest = 2 ** 31 - 1;

/**
 * Refuses a file of another kind or architecture.
 *
 * @returns the architecture's name.
 * @throws {UnsupportedError} that names the kind of file.
 */
export function expectArchitecture(metadata: Metadata, path: string, op: string): string {
  const refuse = (received: string): never => {
    const expected = `a text model of architecture ${Object.keys(architectures).join(", ")}`;
    throw new UnsupportedError({ op, argument: path, expected, received });
  };
  const type = metadata.text("general.type") ?? "model";
  const name = metadata.text("general.architecture") ?? refuse("no general.architecture");
  if (type === "adapter") refuse("an adapter (LoRA): merge it into its base first");
  if (type === "mmproj" || name === "clip") refuse("an mmproj file, which projects images or sounds for a model");
  if (type !== "model") refuse(`a file of general.type ${describe(type)}`);
  if (!Object.hasOwn(architectures, name)) refuse(`a model of architecture ${describe(name)}`);
  return name;
}

/** The numbers of a model's blocks: blocks that predict several tokens come after the layers. */
export function blocksOf(metadata: Metadata, name: string, path: string, op: string): Blocks {
  const all = required(metadata.integer(`${name}.block_count`, 1, 1 << 16), `${name}.block_count`, path, op);
  return { all, layers: all - (metadata.integer(`${name}.nextn_predict_layers`, 0, all - 1) ?? 0) };
}

/**
 * Which of a model's layers have a Gated DeltaNet, where the file lists them: newer converters do, and then
 * `full_attention_interval` has no meaning. Prediction blocks come last in the list.
 *
 * @throws {FileError} for a list whose length is not the number of blocks.
 */
function recurrentOf(metadata: Metadata, name: string, path: string, op: string): readonly boolean[] | undefined {
  const key = `${name}.attention.recurrent_layers`;
  const flags = metadata.flags(key, 1 << 16);
  const { all, layers } = blocksOf(metadata, name, path, op);
  if (flags === undefined || flags.length === all) return flags?.slice(0, layers);
  throw new FileError(path, { op, expected: `${key} to have ${all} elements, as block_count says`, received: `${flags.length}` });
}

/** Whether a layer has attention instead of a Gated DeltaNet. */
export function attentionIn(metadata: Metadata, name: string, path: string, op: string): (layer: number) => boolean {
  const recurrent = recurrentOf(metadata, name, path, op);
  const interval = intervalOf(metadata, name);
  return (layer) => (recurrent === undefined ? (layer + 1) % interval === 0 : recurrent[layer] === false);
}

function intervalOf(metadata: Metadata, name: string): number {
  return metadata.integer(`${name}.full_attention_interval`, 1, largest) ?? 4;
}

/**
 * The configuration as transformers would have it, and the library's own `linear_value_head_order`.
 *
 * @param vocabSize rows of the embedding.
 * @param tied whether there is no output projection.
 * @throws {FileError} for keys that are missing or of other types; {@link UnsupportedError} for settings of other models.
 */
export function configOf(metadata: Metadata, vocabSize: number, tied: boolean, path: string, op: string): object {
  const name = expectArchitecture(metadata, path, op);
  const { modelType, valueHeads, experts } = architectures[name]!;
  refuseForeign(metadata, name, path, op);
  const blocks = blocksOf(metadata, name, path, op);
  const optional = (key: string, most = largest) => metadata.integer(`${name}.${key}`, 1, most);
  const size = (key: string) => required(optional(key), `${name}.${key}`, path, op);
  const optionalOfLayers = (key: string) => metadata.uniform(`${name}.${key}`, 1, largest, blocks.all);
  const ofLayers = (key: string) => required(optionalOfLayers(key), `${name}.${key}`, path, op);
  const number = (key: string) => required(metadata.number(`${name}.${key}`), `${name}.${key}`, path, op);
  const refuse = (key: string, expected: string, received: number): FileError => new FileError(path, { op, expected: `${name}.${key} to be ${expected}`, received: `${received}` });
  const multiple = (key: string, value: number, of: string, divisor: number): number => {
    if (value % divisor !== 0) throw refuse(key, `a multiple of ${of} (${divisor})`, value);
    return value / divisor;
  };
  const hidden = size("embedding_length");
  const heads = ofLayers("attention.head_count");
  const headDim = optional("attention.key_length") ?? multiple("embedding_length", hidden, "attention.head_count", heads);
  expectEqual("attention.value_length", headDim);
  const rotated = optional("rope.dimension_count", headDim) ?? headDim;
  if (rotated % 2 !== 0) throw refuse("rope.dimension_count", "an even number", rotated);
  const rank = size("ssm.time_step_rank");
  const keyHeads = size("ssm.group_count");
  multiple("ssm.time_step_rank", rank, "ssm.group_count", keyHeads);
  const valueDim = multiple("ssm.inner_size", size("ssm.inner_size"), "ssm.time_step_rank", rank);
  const wide = experts ? optionalOfLayers("feed_forward_length") : ofLayers("feed_forward_length");
  const recurrent = recurrentOf(metadata, name, path, op);
  const ends = endNames.map((end) => metadata.id(`tokenizer.ggml.${end}_token_id`, largest));
  return {
    model_type: modelType,
    hidden_size: hidden,
    ...(wide !== undefined && { intermediate_size: wide }),
    num_hidden_layers: blocks.layers,
    vocab_size: vocabSize,
    tie_word_embeddings: tied,
    hidden_act: "silu",
    rms_norm_eps: number("attention.layer_norm_rms_epsilon"),
    max_position_embeddings: size("context_length"),
    num_attention_heads: heads,
    num_key_value_heads: optionalOfLayers("attention.head_count_kv") ?? heads,
    head_dim: headDim,
    rope_parameters: { rope_type: "default", rope_theta: metadata.number(`${name}.rope.freq_base`) ?? 10000, partial_rotary_factor: rotated / headDim },
    ...(recurrent === undefined
      ? { full_attention_interval: intervalOf(metadata, name) }
      : { layer_types: recurrent.map((is) => (is ? "linear_attention" : "full_attention")) }),
    linear_num_key_heads: keyHeads,
    linear_num_value_heads: rank,
    linear_key_head_dim: size("ssm.state_size"),
    linear_value_head_dim: valueDim,
    linear_conv_kernel_dim: size("ssm.conv_kernel"),
    linear_value_head_order: valueHeads,
    ...(experts && {
      num_experts: size("expert_count"),
      num_experts_per_tok: ofLayers("expert_used_count"),
      moe_intermediate_size: ofLayers("expert_feed_forward_length"),
      shared_expert_intermediate_size: size("expert_shared_feed_forward_length"),
    }),
    eos_token_id: [...new Set(ends.filter((end) => end !== undefined))],
  };

  function expectEqual(key: string, value: number): void {
    const found = optional(key);
    if (found !== undefined && found !== value) throw refuse(key, `${value}, as attention.key_length`, found);
  }
}

function required<T>(value: T | undefined, key: string, path: string, op: string): T {
  if (value !== undefined) return value;
  throw new FileError(path, { op, expected: `metadata ${key}`, received: "none" });
}

function refuseForeign(metadata: Metadata, name: string, path: string, op: string): void {
  for (const [key, neutral] of Object.entries(foreign)) {
    const full = `${name}.${key}`;
    const found = metadata.scalar(full);
    if (found === undefined || neutral.some((value) => value === found)) continue;
    const expected = neutral.map((value) => describe(value)).join(" or ") || "none";
    throw new UnsupportedError({ op, argument: `${path}: ${full}`, expected, received: describe(found) });
  }
}
