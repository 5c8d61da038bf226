/**
 * Reads a model's `config.json` and `generation_config.json` with transformers' keys, and with its defaults for keys that
 * published configurations omit.
 */

import { UnsupportedError, describe } from "../errors.ts";
import { configError } from "../checkpoint/config-errors.ts";
import { isRecord } from "../checkpoint/json.ts";
import type { ConfigPlace } from "../checkpoint/config-errors.ts";
import { modelTypes, textConfigOf } from "../checkpoint/mixer-config.ts";
import { refuseSettings } from "../checkpoint/config-settings.ts";
import { refuseOtherSchemes } from "../checkpoint/quantization.ts";
import { endSchema } from "./config-schemas.ts";
import { families } from "./families/index.ts";
import type { ConfigParts, Family, ParsedConfig } from "./families/family.ts";

/**
 * Reads a parsed `config.json`.
 *
 * @throws {FileError} that names the key at fault; {@link UnsupportedError} for models of other architectures, other
 * quantisations, activations or rotations.
 */
export function parseModelConfig(source: unknown, place: ConfigPlace): { readonly family: Family; readonly config: ParsedConfig } {
  const root = textConfigOf(source);
  if (!isRecord(root)) throw configError(place, "", "a model's configuration, an object", describe(root));
  const family = familyOf(source, place);
  refuseOtherSchemes(source, place);
  const parts: ConfigParts = source === root ? [root] : [root, source as Record<string, unknown>];
  for (const part of parts) refuseSettings(family.settings, part, place);
  return { family, config: family.parse(parts, place) };
}

/** The family of a configuration. The error for other models names them instead of a missing key. */
function familyOf(source: unknown, { path, op }: ConfigPlace): Family {
  const expected = families.map(({ title, modelTypes }) => `${title} (model_type ${modelTypes.join(" or ")})`).join(", or ");
  const refuse = (key: string, received: string): never => {
    throw new UnsupportedError({ op, argument: `${path ?? "config"}: ${key}`, expected, received });
  };
  const types = modelTypes(source);
  if (types.length === 0) refuse("model_type", "none");
  const family = families.find(({ modelTypes }) => types.every((type) => modelTypes.includes(type)));
  const known = families.find(({ modelTypes }) => types.some((type) => modelTypes.includes(type)));
  return family ?? refuse("model_type", describe(types.find((type) => known?.modelTypes.includes(type) !== true)));
}

/**
 * Tokens that end a text: those of `generation_config.json`, then those of `config.json`.
 *
 * @param generation the parsed `generation_config.json`; undefined if there is none.
 */
export function parseEnds(config: unknown, place: ConfigPlace, generation: unknown, generationPlace: ConfigPlace): number[] {
  const found = new Set<number>();
  const parts = [[generation, generationPlace], [config, place], [textConfigOf(config), place]] as const;
  for (const [part, where] of parts) {
    const ends = isRecord(part) ? part["eos_token_id"] : undefined;
    const result = endSchema().safeParse(ends);
    if (!result.success) throw configError(where, "eos_token_id", "a token id, or an array of them", describe(ends));
    for (const end of [result.data ?? []].flat()) found.add(end);
  }
  return [...found];
}
