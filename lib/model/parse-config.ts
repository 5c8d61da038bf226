/**
 * Reads a model's `config.json` and `generation_config.json` under the names of transformers
 * (`configuration_qwen3_5.py`), whose defaults it has where published configurations leave a key out.
 */

import { UnsupportedError, describe } from "../errors.ts";
import { configError, isRecord, parsed, unsupportedValue } from "../checkpoint/config-errors.ts";
import type { ConfigPlace } from "../checkpoint/config-errors.ts";
import { modelTypes, parseLayerConfig, textConfigOf } from "../checkpoint/mixer-config.ts";
import { modelSettings, refuseRotation, refuseSettings } from "../checkpoint/config-settings.ts";
import { refuseOtherSchemes } from "../checkpoint/quantization.ts";
import type { LayerType, ModelConfig } from "./model-config.ts";

/** What is supported, for messages. */
const supported = "a dense Qwen3.5 text model (model_type qwen3_5 or qwen3_5_text)";

/** A configuration, but for two things that the checkpoint has a say in. */
export type ParsedConfig = Omit<ModelConfig, "tied" | "eosTokens"> & {
  /** What the configuration says of tied embeddings: the whole model's word, then the text model's. */
  readonly tied: readonly boolean[];
};

const schemas = () => require("./config-schemas.ts") as typeof import("./config-schemas.ts");

/**
 * Reads a parsed `config.json`.
 *
 * @throws {FileError} naming the key at fault; {@link UnsupportedError} for models of other architectures, with mixtures
 * of experts, other quantisations, activations or rotations.
 */
export function parseModelConfig(source: unknown, place: ConfigPlace): ParsedConfig {
  const root = textConfigOf(source);
  if (!isRecord(root)) throw configError(place, "", "a model's configuration, an object", describe(root));
  refuseOthers(source, root, place);
  refuseOtherSchemes(source, place);
  const data = parsed(schemas().modelSchema, root, place);
  const parts = source === root ? [root] : [root, source]; // the text model's own words, then those of what it is nested in
  for (const part of parts) refuseSettings(modelSettings, part, place);
  const layers = layersOf();
  const first = layers.indexOf("gatedDelta");
  if (first < 0) throw new UnsupportedError({ op: place.op, argument: `${place.path}: layer_types`, expected: `${supported}, with linear_attention layers`, received: "none of them" });
  const heads = data.num_attention_heads;
  const kvHeads = data.num_key_value_heads;
  if (heads % kvHeads !== 0) throw configError(place, "num_attention_heads", `a multiple of num_key_value_heads (${kvHeads})`, String(heads));
  return {
    hiddenSize: data.hidden_size,
    intermediateSize: data.intermediate_size,
    vocabSize: data.vocab_size,
    normEps: data.rms_norm_eps ?? 1e-6,
    maxPositions: data.max_position_embeddings,
    layers,
    attention: { heads, kvHeads, ...rotation() },
    mixer: parseLayerConfig(source, first, place),
    tied: [source, root].map((part) => (isRecord(part) ? part["tie_word_embeddings"] : undefined)).filter((said) => typeof said === "boolean"),
  };

  function layersOf(): LayerType[] {
    const { num_hidden_layers: count, layer_types: types, full_attention_interval: interval } = data;
    if (types && types.length !== count) throw configError(place, "layer_types", `${count} types, as num_hidden_layers says`, String(types.length));
    return Array.from({ length: count }, (_, layer) => {
      const type = types ? types[layer] : (layer + 1) % (interval ?? 4) === 0 ? "full_attention" : "linear_attention";
      if (type === "linear_attention") return "gatedDelta";
      if (type === "full_attention") return "attention";
      throw unsupportedValue(place, `layer_types.${layer}`, '"linear_attention" or "full_attention"', type);
    });
  }

  /** The heads' length and rotation, which transformers reads from `rope_scaling` and mlx-lm from `rope_parameters`. */
  function rotation() {
    const headDim = data.head_dim ?? 256;
    const keys = ["rope_parameters", "rope_scaling"] as const;
    const said = parts.flatMap((part) => keys.map((key) => [key, (part as Record<string, unknown>)[key]] as const));
    const given = said.filter(([, one]) => one !== undefined && one !== null && !(isRecord(one) && Object.keys(one).length === 0));
    for (const [key, one] of given) refuseRotation(one, place, key);
    const [first = {}, ...others] = given.map(([, one]) => one as { rope_theta?: unknown; partial_rotary_factor?: unknown });
    const thetaOf = (one: typeof first) => one.rope_theta ?? data.rope_theta;
    const factorOf = (one: typeof first) => one.partial_rotary_factor ?? data.partial_rotary_factor ?? 0.25;
    const [theta, factor] = [thetaOf(first), factorOf(first)];
    if (typeof theta !== "number") throw configError(place, "rope_parameters.rope_theta", "a number above 1", "none");
    const other = others.findIndex((one) => thetaOf(one) !== theta || factorOf(one) !== factor);
    if (other >= 0) throw unsupportedValue(place, given[other + 1]![0], `the rotation of ${given[0]![0]}`, given[other + 1]![1]);
    const rotaryDim = Math.floor(headDim * (factor as number));
    if (rotaryDim % 2 !== 0) {
      throw configError(place, "rope_parameters.partial_rotary_factor", `a fraction that makes an even number of ${headDim} dimensions`, String(factor));
    }
    return { headDim, rotaryDim, ropeTheta: theta };
  }
}

/** Refuses what is another model: it is named, so that nobody has to guess from a missing key. */
function refuseOthers(source: unknown, root: Record<string, unknown>, { path, op }: ConfigPlace): void {
  const refuse = (key: string, received: string): never => {
    throw new UnsupportedError({ op, argument: `${path ?? "config"}: ${key}`, expected: supported, received });
  };
  const types = modelTypes(source);
  const experts = ["num_experts", "num_local_experts", "n_routed_experts"].find((key) => root[key] !== undefined && root[key] !== null && root[key] !== 0);
  if (experts !== undefined || types.some((type) => /moe/.test(type))) {
    refuse(experts ?? "model_type", `a mixture of experts${experts === undefined ? "" : `, ${experts} ${describe(root[experts])}`} (model_type ${describe(types[0])})`);
  }
  if (types.length === 0 || types.some((type) => type !== "qwen3_5" && type !== "qwen3_5_text")) {
    refuse("model_type", types.length === 0 ? "none" : describe(types.find((type) => !/^qwen3_5(?:_text)?$/.test(type))));
  }
}

/**
 * Tokens that end a text: those of `generation_config.json`, then those of `config.json`.
 *
 * @param generation the parsed `generation_config.json`; undefined where there is none.
 */
export function parseEnds(config: unknown, place: ConfigPlace, generation: unknown, generationPlace: ConfigPlace): number[] {
  const { endSchema } = schemas();
  const found = new Set<number>();
  const parts = [[generation, generationPlace], [config, place], [textConfigOf(config), place]] as const;
  for (const [part, where] of parts) {
    const said = isRecord(part) ? part["eos_token_id"] : undefined;
    const result = endSchema.safeParse(said);
    if (!result.success) throw configError(where, "eos_token_id", "a token id, or an array of them", describe(said));
    for (const end of [result.data ?? []].flat()) found.add(end);
  }
  return [...found];
}
