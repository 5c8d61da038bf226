/**
 * The configuration of a GGUF file's model, with the keys of transformers: the families of models read it as they read a
 * `config.json`. Keys: llama.cpp, `src/llama-arch.cpp`, `src/models/qwen35.cpp`, `qwen35moe.cpp` and `qwen3next.cpp`.
 */
import { FileError, UnsupportedError, describe } from "../../errors.ts";
import type { Metadata } from "./metadata.ts";

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

/** Settings that change numbers and that these models do not have: each with the value that changes nothing, if it has one. */
const foreign: Readonly<Record<string, number | string | boolean | undefined>> = {
  "attention.scale": undefined,
  "attention.causal": true,
  "attention.sliding_window": 0,
  "attention.max_alibi_bias": 0,
  "attention.clamp_kqv": 0,
  attn_logit_softcapping: 0,
  final_logit_softcapping: 0,
  logit_scale: 1,
  embedding_scale: 1,
  residual_scale: 1,
  expert_weights_scale: 1,
  expert_weights_norm: true,
  expert_gating_func: 1,
  expert_group_count: 0,
  expert_group_used_count: 0,
  "rope.scaling.type": "none",
  "rope.scaling.factor": 1,
};

/** Sizes are far below this. */
const largest = 2 ** 31 - 1;

/**
 * Refuses a file of another kind or architecture.
 *
 * @returns the architecture's name.
 * @throws {UnsupportedError} with what the file is.
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

/** The number of a model's layers: prediction blocks come after them, and count as blocks. */
export function layersOf(metadata: Metadata, name: string, path: string, op: string): number {
  const blocks = required(metadata.integer(`${name}.block_count`, 1, 1 << 16), `${name}.block_count`, path, op);
  return blocks - (metadata.integer(`${name}.nextn_predict_layers`, 0, blocks - 1) ?? 0);
}

/**
 * Which of a model's layers have a Gated DeltaNet, where the file lists them: newer converters do, and their
 * `full_attention_interval` then says nothing. Prediction blocks come last in the list.
 *
 * @throws {FileError} for a list of another length than the number of blocks.
 */
function recurrentOf(metadata: Metadata, name: string, path: string, op: string): readonly boolean[] | undefined {
  const key = `${name}.attention.recurrent_layers`;
  const flags = metadata.flags(key, 1 << 16);
  const blocks = metadata.integer(`${name}.block_count`, 1, 1 << 16);
  if (flags === undefined || flags.length === blocks) return flags?.slice(0, layersOf(metadata, name, path, op));
  throw new FileError(path, { op, expected: `${key} to have ${blocks} elements, as block_count says`, received: `${flags.length}` });
}

/** Whether a layer has attention in place of a Gated DeltaNet. */
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
  const optional = (key: string, least = 1) => metadata.integer(`${name}.${key}`, least, largest);
  const size = (key: string) => required(optional(key), `${name}.${key}`, path, op);
  const number = (key: string) => required(metadata.number(`${name}.${key}`), `${name}.${key}`, path, op);
  const headDim = size("attention.key_length");
  expectEqual("attention.value_length", headDim);
  const rank = size("ssm.time_step_rank");
  const inner = size("ssm.inner_size");
  if (inner % rank !== 0) throw new FileError(path, { op, expected: `${name}.ssm.inner_size to be a multiple of ssm.time_step_rank (${rank})`, received: `${inner}` });
  const recurrent = recurrentOf(metadata, name, path, op);
  const ends = ["eos", "eot", "eom"].map((end) => metadata.integer(`tokenizer.ggml.${end}_token_id`, 0, largest));
  return {
    model_type: modelType,
    hidden_size: size("embedding_length"),
    ...(optional("feed_forward_length") !== undefined && { intermediate_size: optional("feed_forward_length") }),
    num_hidden_layers: layersOf(metadata, name, path, op),
    vocab_size: vocabSize,
    tie_word_embeddings: tied,
    hidden_act: "silu",
    rms_norm_eps: number("attention.layer_norm_rms_epsilon"),
    max_position_embeddings: size("context_length"),
    num_attention_heads: size("attention.head_count"),
    num_key_value_heads: size("attention.head_count_kv"),
    head_dim: headDim,
    rope_parameters: { rope_type: "default", rope_theta: number("rope.freq_base"), partial_rotary_factor: (optional("rope.dimension_count") ?? headDim) / headDim },
    ...(recurrent === undefined
      ? { full_attention_interval: intervalOf(metadata, name) }
      : { layer_types: recurrent.map((is) => (is ? "linear_attention" : "full_attention")) }),
    linear_num_key_heads: size("ssm.group_count"),
    linear_num_value_heads: rank,
    linear_key_head_dim: size("ssm.state_size"),
    linear_value_head_dim: inner / rank,
    linear_conv_kernel_dim: size("ssm.conv_kernel"),
    linear_value_head_order: valueHeads,
    ...(experts && {
      num_experts: size("expert_count"),
      num_experts_per_tok: size("expert_used_count"),
      moe_intermediate_size: size("expert_feed_forward_length"),
      shared_expert_intermediate_size: size("expert_shared_feed_forward_length"),
    }),
    eos_token_id: [...new Set(ends.filter((end) => end !== undefined))],
  };

  function expectEqual(key: string, value: number): void {
    const found = optional(key);
    if (found === undefined || found === value) return;
    throw new FileError(path, { op, expected: `${name}.${key} to be ${value}, as attention.key_length`, received: `${found}` });
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
    if (found === undefined || found === neutral) continue;
    const expected = neutral === undefined ? "none" : describe(neutral);
    throw new UnsupportedError({ op, argument: `${path}: ${full}`, expected, received: describe(found) });
  }
}
