/**
 * What a Gated DeltaNet layer needs of a Hugging Face `config.json`, under the names that Qwen3-Next and Qwen3.5
 * configurations use. A missing size is an error that names it. The three keys that published configurations leave out
 * (`rms_norm_eps`, `hidden_act`, `output_gate_type`) have the defaults of transformers.
 */

import type { z } from "zod";
import { BoundsError, FileError, GatedDeltaError, UnsupportedError, describe } from "../errors.ts";
import type { configSchema } from "./layer-schemas.ts";

/** The shape and options of one Gated DeltaNet mixer. */
export interface LayerConfig {
  /** Width of the hidden states. */
  readonly hiddenSize: number;
  /** Query and key heads (`linear_num_key_heads`). */
  readonly keyHeads: number;
  /** Value, gate and output heads (`linear_num_value_heads`), a multiple of {@link keyHeads}. */
  readonly valueHeads: number;
  /** Length of a query or key head (`linear_key_head_dim`). */
  readonly keyDim: number;
  /** Length of a value or output head (`linear_value_head_dim`). */
  readonly valueDim: number;
  /** Taps of the causal convolution (`linear_conv_kernel_dim`). */
  readonly convWidth: number;
  /** Epsilon of the gated RMS norm (`rms_norm_eps`). */
  readonly normEps: number;
  /** Activation of the output gate z (`output_gate_type`; `swish` is silu). */
  readonly outputGate: "silu" | "sigmoid";
}

/** Channels of the convolution: query, key and value side by side. */
export function convChannels(config: LayerConfig): number {
  return 2 * config.keyHeads * config.keyDim + config.valueHeads * config.valueDim;
}

/** Length of the concatenated value heads, which is that of z and of the input of `out_proj`. */
export function valueChannels(config: LayerConfig): number {
  return config.valueHeads * config.valueDim;
}

/**
 * Reads a parsed `config.json` for one layer. Multimodal configurations nest the language model under `text_config`.
 *
 * @param source the parsed JSON.
 * @param layer index of the layer in the model; checked against `num_hidden_layers`, `layer_types` and
 * `full_attention_interval` where the configuration has them.
 * @param path the file that it came from, for error messages; absent for an object passed by a caller.
 * @throws FileError (from a file) or an `invalid-argument` error (from an object) naming the key at fault;
 * BoundsError for a layer that the model does not have; UnsupportedError for an activation that has no kernel.
 */
export function parseLayerConfig(source: unknown, layer: number, path?: string): LayerConfig {
  const root = isRecord(source) && isRecord(source["text_config"]) ? source["text_config"] : source;
  if (!isRecord(root)) throw mistake(path, "", "the configuration of a Gated DeltaNet model, an object", describe(root));
  if (!Object.keys(root).some((key) => /^linear_(?:num|key|value|conv)_/.test(key))) {
    const type = root["model_type"];
    const received = type === undefined ? "neither these nor a model_type" : `a model_type of ${describe(type)} without them`;
    throw mistake(path, "", "a Gated DeltaNet model, with linear_num_key_heads and other linear_* keys", received);
  }
  const { configSchema } = require("./layer-schemas.ts") as typeof import("./layer-schemas.ts");
  const parsed = configSchema.safeParse(root);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const at = issue?.path ?? [];
    const value = valueAt(root, at);
    throw mistake(path, at.join("."), issue?.message ?? "", value === undefined ? "none" : describe(value));
  }
  const data = parsed.data;
  if (data.linear_num_value_heads % data.linear_num_key_heads !== 0) {
    const expected = `a multiple of linear_num_key_heads (${data.linear_num_key_heads})`;
    throw mistake(path, "linear_num_value_heads", expected, String(data.linear_num_value_heads));
  }
  checkLayer(data, layer, path);
  const activation = data.hidden_act ?? "silu";
  if (!isSilu(activation)) throw unsupported(path, "hidden_act", '"silu" or "swish"', activation);
  const gate = data.output_gate_type ?? "silu";
  if (!isSilu(gate) && gate !== "sigmoid") {
    throw unsupported(path, "output_gate_type", '"silu", "swish" or "sigmoid"', gate);
  }
  return {
    hiddenSize: data.hidden_size,
    keyHeads: data.linear_num_key_heads,
    valueHeads: data.linear_num_value_heads,
    keyDim: data.linear_key_head_dim,
    valueDim: data.linear_value_head_dim,
    convWidth: data.linear_conv_kernel_dim,
    normEps: data.rms_norm_eps ?? 1e-6,
    outputGate: isSilu(gate) ? "silu" : "sigmoid",
  };
}

/** The asked layer exists and is a linear one, as far as the configuration tells. */
function checkLayer(data: z.infer<typeof configSchema>, layer: number, path: string | undefined): void {
  const layers = data.layer_types?.length ?? data.num_hidden_layers;
  if (typeof layers === "number" && layer >= layers) {
    throw new BoundsError({ op, argument: "layer", expected: `0..${layers - 1}`, received: String(layer) });
  }
  const interval = data.full_attention_interval;
  const type = data.layer_types
    ? data.layer_types[layer]
    : typeof interval === "number" && (layer + 1) % interval === 0 ? "full_attention" : "linear_attention";
  if (type !== "linear_attention") {
    const where = path === undefined ? "" : ` in ${path}`;
    throw new GatedDeltaError("invalid-argument", {
      op,
      argument: "layer",
      expected: `a layer of type "linear_attention"${where}`,
      received: `layer ${layer}, of type ${describe(type)}`,
    });
  }
}

const op = "GatedDeltaNet.load";

function isSilu(activation: string): boolean {
  return activation === "silu" || activation === "swish";
}

function mistake(path: string | undefined, key: string, expected: string, received: string): GatedDeltaError {
  const text = key === "" ? expected : `${key}: ${expected}`;
  return path === undefined
    ? new GatedDeltaError("invalid-argument", { op, argument: key === "" ? "config" : `config.${key}`, expected, received })
    : new FileError(path, { op, expected: text, received });
}

function unsupported(path: string | undefined, key: string, expected: string, received: string): GatedDeltaError {
  return new UnsupportedError({ op, argument: `${path ?? "config"}: ${key}`, expected, received: describe(received) });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}
