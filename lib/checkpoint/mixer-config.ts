/**
 * The settings of a Gated DeltaNet layer in a Hugging Face `config.json`, for each architecture that has such layers. A
 * missing size is an error that names it. Settings that published configurations leave out have transformers' defaults.
 */

import type { HeadMap } from "../native/options.ts";
import { BoundsError, GatedDeltaError, describe } from "../errors.ts";
import { configError, parsed, unsupportedValue } from "./config-errors.ts";
import { isRecord } from "./json.ts";
import type { ConfigOf, ConfigPlace } from "./config-errors.ts";
import { mixerSettings, refuseSettings } from "./config-settings.ts";
import { kdaArchitecture, parseKda } from "./kda-config.ts";
import { headDimText, olmoSchema, qwenSchema, sizes } from "./mixer-schemas.ts";

/** The shape and options of one Gated DeltaNet mixer. */
export interface LayerConfig {
  /** Width of the hidden states. */
  readonly hiddenSize: number;
  /** Number of query and key heads (`linear_num_key_heads`). */
  readonly keyHeads: number;
  /** Number of value, gate and output heads (`linear_num_value_heads`), a multiple of {@link keyHeads}. */
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
  /** One decay for each value head, or one for each of its key dimensions (KDA). */
  readonly gateDims: "head" | "key";
  /** The bound L < 0 of bounded decays, exp(L sigmoid(exp(A_log) (a + dt_bias))); undefined for unbounded ones. */
  readonly gateBound: number | undefined;
  /** The function from the projection to β: `2-sigmoid` in models that allow negative eigenvalues. */
  readonly betaForm: "sigmoid" | "2-sigmoid";
  /**
   * How the checkpoint holds the projections and convolutions of query, key and value: `joint` as one (or interleaved
   * with others), `separate` as one for each.
   */
  readonly projections: "joint" | "separate";
  /**
   * Key head of value head v: v div r for `block`, with r value heads to a key head; v mod {@link keyHeads} for `tiled`
   * (`linear_value_head_order`, the library's own key, which a GGUF file's architecture determines). @default "block"
   */
  readonly headMap?: HeadMap | undefined;
}

/** Channels of the convolution: query, key and value side by side. */
export function convChannels(config: LayerConfig): number {
  return 2 * config.keyHeads * config.keyDim + config.valueHeads * config.valueDim;
}

/** Length of the concatenated value heads, of z, and of the output projection's input. */
export function valueChannels(config: LayerConfig): number {
  return config.valueHeads * config.valueDim;
}

/** Number of a token's gates: {@link LayerConfig.valueHeads}, times the number of key dimensions if each has a gate. */
export function gateChannels({ valueHeads, gateDims, keyDim }: LayerConfig): number {
  return gateDims === "key" ? valueHeads * keyDim : valueHeads;
}

/**
 * Reads a parsed `config.json` for one layer. Multimodal configurations nest the language model under `text_config`.
 *
 * @param source the parsed JSON.
 * @param layer index of the layer in the model; checked against the configuration's number and types of layers.
 * @param place the file of the configuration, for error messages.
 * @throws FileError (from a file) or an `invalid-argument` error (from an object) naming the key at fault;
 * BoundsError for a layer outside the model; UnsupportedError for an activation that has no kernel.
 */
export function parseLayerConfig(source: unknown, layer: number, place: ConfigPlace): LayerConfig {
  const mixers = parseMixers(source, place);
  checkLayer(layer, mixers, place);
  return mixers.config;
}

/**
 * Reads a parsed `config.json` for all layers: their mixers, and which layers have one.
 *
 * @throws as {@link parseLayerConfig}.
 */
export function parseMixers(source: unknown, place: ConfigPlace): ConfigOf {
  const root = textConfigOf(source);
  if (!isRecord(root)) throw configError(place, "", "the configuration of a Gated DeltaNet model, an object", describe(root));
  const types = modelTypes(source);
  const kda = types.map(kdaArchitecture).find((found) => found !== undefined);
  if (kda !== undefined) return parseKda(kda, root, place);
  return types.includes("olmo_hybrid") ? parseOlmo(root, place) : parseQwen(root, types, place);
}

/** The configuration of the language model. */
export function textConfigOf(source: unknown): unknown {
  return isRecord(source) && isRecord(source["text_config"]) ? source["text_config"] : source;
}

/** The `model_type` of the language model and of the model around it, as far as they have one. */
export function modelTypes(source: unknown): string[] {
  const types = [textConfigOf(source), source].map((part) => (isRecord(part) ? part["model_type"] : undefined));
  return types.filter((type) => typeof type === "string");
}

/** Qwen3-Next, Qwen3.5 and other models with the same keys. */
function parseQwen(root: object, types: readonly string[], place: ConfigPlace): ConfigOf {
  if (!Object.keys(root).some((key) => /^linear_(?:num|key|value|conv)_/.test(key))) {
    const [type] = types;
    const received = type === undefined ? "neither these nor a model_type" : `a model_type of ${describe(type)} without them`;
    throw configError(place, "", "a Gated DeltaNet model, with linear_num_key_heads and other linear_* keys", received);
  }
  const data = parsed(qwenSchema(), root, place);
  refuseSettings(mixerSettings.qwen, root, place);
  // transformers' Qwen3.5 has no such option: its gate is always SiLU.
  const gate = types.some((type) => /^qwen3_5/.test(type)) ? "silu" : data.output_gate_type ?? "silu";
  if (!isSilu(gate) && gate !== "sigmoid") throw unsupportedValue(place, "output_gate_type", '"silu", "swish" or "sigmoid"', gate);
  const interval = data.full_attention_interval ?? 4;
  return {
    config: {
      ...headsOf(data, place),
      normEps: data.rms_norm_eps ?? 1e-6,
      outputGate: isSilu(gate) ? "silu" : "sigmoid",
      betaForm: "sigmoid",
      projections: "joint",
      ...(data.linear_value_head_order === "tiled" && { headMap: "tiled" as const }),
    },
    layers: data.layer_types?.length ?? data.num_hidden_layers ?? undefined,
    typeOf: (layer) => data.layer_types
      ? data.layer_types[layer]
      : (layer + 1) % interval === 0 ? "full_attention" : "linear_attention",
    assumed: !data.layer_types && typeof data.full_attention_interval !== "number",
  };
}

/** OLMo hybrid, whose gated norm has its own epsilon (transformers, `OlmoHybridGatedDeltaNet`, `OlmoHybridConfig`). */
function parseOlmo(root: object, place: ConfigPlace): ConfigOf {
  const data = parsed(olmoSchema(), root, place);
  refuseSettings(mixerSettings.olmo, root, place);
  const keyHeads = data.linear_num_key_heads ?? data.num_attention_heads;
  const valueHeads = data.linear_num_value_heads ?? data.num_attention_heads;
  if (typeof keyHeads !== "number") throw configError(place, "linear_num_key_heads", "a size, here or as num_attention_heads", "none");
  if (typeof valueHeads !== "number") throw configError(place, "linear_num_value_heads", "a size, here or as num_attention_heads", "none");
  const keyDim = data.linear_key_head_dim ?? Math.floor((0.75 * data.hidden_size) / keyHeads);
  const valueDim = data.linear_value_head_dim ?? 2 * keyDim;
  for (const [key, dim] of [["linear_key_head_dim", keyDim], ["linear_value_head_dim", valueDim]] as const) {
    if (!sizes().headDim.safeParse(dim).success) throw configError(place, key, `${headDimText} (derived from other sizes if left out)`, `${dim}, derived`);
  }
  const found = {
    hidden_size: data.hidden_size,
    linear_num_key_heads: keyHeads,
    linear_num_value_heads: valueHeads,
    linear_key_head_dim: keyDim,
    linear_value_head_dim: valueDim,
    linear_conv_kernel_dim: data.linear_conv_kernel_dim ?? 4,
  };
  const layers = data.layer_types?.length ?? data.num_hidden_layers ?? undefined;
  const isLastOfFew = (layer: number) => layers !== undefined && layers < 4 && layer === layers - 1;
  return {
    config: {
      ...headsOf(found, place),
      normEps: 1e-5,
      outputGate: "silu",
      betaForm: data.linear_allow_neg_eigval ?? true ? "2-sigmoid" : "sigmoid",
      projections: "separate",
    },
    layers,
    typeOf: (layer) => data.layer_types
      ? data.layer_types[layer]
      : (layer + 1) % 4 === 0 || isLastOfFew(layer) ? "full_attention" : "linear_attention",
  };
}

/** The sizes of mixers with a decay for each head. */
function headsOf(
  data: {
    hidden_size: number;
    linear_num_key_heads: number;
    linear_num_value_heads: number;
    linear_key_head_dim: number;
    linear_value_head_dim: number;
    linear_conv_kernel_dim: number;
  },
  place: ConfigPlace,
) {
  if (data.linear_num_value_heads % data.linear_num_key_heads !== 0) {
    const expected = `a multiple of linear_num_key_heads (${data.linear_num_key_heads})`;
    throw configError(place, "linear_num_value_heads", expected, String(data.linear_num_value_heads));
  }
  return {
    hiddenSize: data.hidden_size,
    keyHeads: data.linear_num_key_heads,
    valueHeads: data.linear_num_value_heads,
    keyDim: data.linear_key_head_dim,
    valueDim: data.linear_value_head_dim,
    convWidth: data.linear_conv_kernel_dim,
    gateDims: "head",
    gateBound: undefined,
  } as const;
}

/** Expects an existing layer of linear attention, as far as the configuration shows. */
function checkLayer(layer: number, { layers, typeOf, assumed }: ConfigOf, { path, op }: ConfigPlace): void {
  if (layers !== undefined && layer >= layers) {
    throw new BoundsError({ op, argument: "layer", expected: `0..${layers - 1}`, received: String(layer) });
  }
  const type = typeOf(layer);
  if (type === "linear_attention" || assumed) return;
  const where = path === undefined ? "" : ` in ${path}`;
  throw new GatedDeltaError("invalid-argument", {
    op,
    argument: "layer",
    expected: `a layer of type "linear_attention"${where}`,
    received: `layer ${layer}, of type ${describe(type)}`,
  });
}

function isSilu(activation: string): boolean {
  return activation === "silu" || activation === "swish";
}
