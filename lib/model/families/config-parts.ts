/** Readers for keys that the configurations of several families share. */
import { UnsupportedError } from "../../errors.ts";
import { configError, unsupportedValue } from "../../checkpoint/config-errors.ts";
import type { ConfigPlace } from "../../checkpoint/config-errors.ts";
import { parseMixers } from "../../checkpoint/mixer-config.ts";
import type { Checked } from "../../arguments/schemas.ts";
import type { expertsSchema } from "../config-schemas.ts";
import type { ExpertsConfig, LayerType } from "../model-config.ts";
import type { ConfigParts, ParsedConfig } from "./family.ts";

/**
 * The types of a model's layers and the configuration of its Gated DeltaNets.
 *
 * @param count `num_hidden_layers`.
 * @throws {FileError} for another number of types; {@link UnsupportedError} for layers of other types.
 */
export function layersOf(parts: ConfigParts, count: number, place: ConfigPlace): Pick<ParsedConfig, "layers" | "mixer"> {
  const { config: mixer, layers: types, typeOf } = parseMixers(parts.at(-1), place);
  if (types !== undefined && types !== count) throw configError(place, "layer_types", `${count} types, the number in num_hidden_layers`, String(types));
  const layers = Array.from({ length: count }, (_, layer): LayerType => {
    const type = typeOf(layer);
    if (type === "linear_attention") return "gatedDelta";
    if (type === "full_attention") return "attention";
    throw unsupportedValue(place, `layer_types.${layer}`, '"linear_attention" or "full_attention"', type);
  });
  if (!layers.includes("gatedDelta")) {
    const argument = `${place.path ?? "config"}: layer_types`;
    throw new UnsupportedError({ op: place.op, argument, expected: "a model with linear_attention layers", received: "none of them" });
  }
  return { layers, mixer };
}

/**
 * The experts of a model.
 *
 * @param normalized see {@link ExpertsConfig.normalized}.
 * @param layers the layers with experts; undefined is returned if there are none.
 */
export function expertsOf(data: Checked<typeof expertsSchema>, normalized: boolean, layers: readonly number[], place: ConfigPlace): ExpertsConfig | undefined {
  const { num_experts: count, num_experts_per_tok: perToken } = data;
  if (perToken > count) throw configError(place, "num_experts_per_tok", `at most num_experts (${count})`, String(perToken));
  if (layers.length === 0) return undefined;
  return {
    count,
    perToken,
    intermediateSize: data.moe_intermediate_size,
    sharedIntermediateSize: data.shared_expert_intermediate_size,
    normalized,
    layers,
  };
}

/** Values of `tie_word_embeddings`, the outermost first. */
export function tiedOf(parts: ConfigParts): boolean[] {
  return parts.toReversed().map((part) => part["tie_word_embeddings"]).filter((tied) => typeof tied === "boolean");
}

/** Refuses query heads that key heads do not divide. */
export function expectHeads(heads: number, kvHeads: number, place: ConfigPlace): void {
  if (heads % kvHeads !== 0) throw configError(place, "num_attention_heads", `a multiple of num_key_value_heads (${kvHeads})`, String(heads));
}
