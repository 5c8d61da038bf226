/**
 * Reads MLX's `quantization` in configurations: `bits`, `group_size` and `mode` for all modules, and under a module's name
 * other values for it, or false (mlx-lm, `utils.py`, `quantize_model`). The tensors decide whether and how a module is
 * quantised; a configuration that contradicts them is refused.
 */

import { FileError, UnsupportedError, describe } from "../errors.ts";
import type { WeightFormat } from "../native/options.ts";
import { weightLayouts, type WeightLayout } from "../native/weight-formats.ts";
import { isRecord } from "./json.ts";
import type { ConfigPlace } from "./config-errors.ts";

/** How weights are quantised. */
export interface Quantization {
  readonly bits: number;
  /** Number of a row's weights that share a scale. */
  readonly group: number;
  /** `affine`, or the name of a micro-scaled format. */
  readonly mode: string;
}

/** The quantisation of a module by its name, as far as the configuration states it. */
export type QuantizationOf = (module: string) => Partial<Quantization>;

/** MLX's forms, each with its format. */
const forms = (Object.entries(weightLayouts) as [WeightFormat, WeightLayout][]).flatMap(([format, { family, bits = 0, elements: group }]) => {
  return family === "affine" ? [{ format, bits, group, mode: family }] : family === "micro" ? [{ format, bits, group, mode: format }] : [];
});

const formsOf = (isAffine: boolean) => forms.filter(({ mode }) => (mode === "affine") === isAffine);
const valuesIn = (isAffine: boolean, key: "bits" | "group"): readonly number[] => [...new Set(formsOf(isAffine).map((form) => form[key]))];

/** Widths of MLX's quantisation, affine or micro-scaled. */
export const bitsOf = (isAffine: boolean): readonly number[] => valuesIn(isAffine, "bits");
/** Group lengths of MLX's quantisation: numbers of a row's weights that share a scale. */
export const groupsOf = (isAffine: boolean): readonly number[] => valuesIn(isAffine, "group");

/** The form of quantised weights with these numbers, with its format and mode; undefined if there is none. */
export function formOf(isAffine: boolean, { bits, group }: Omit<Quantization, "mode">): (Quantization & { readonly format: WeightFormat }) | undefined {
  return formsOf(isAffine).find((form) => form.bits === bits && form.group === group);
}

/** Supported values of `mode`. */
const modes: readonly string[] = [...new Set(forms.map(({ mode }) => mode))];

/** The supported weights, for messages. */
export const supportedWeights = `f32, f16 or bf16 weights, or MLX's quantisation: affine (2, 3, 4, 5, 6, 8 bits; groups of 32, 64, 128), ${modes.slice(1).join(", ")}`;

/**
 * Reads `quantization`, or `quantization_config`, which mlx-lm writes with the same contents. Other schemes are ignored here:
 * see {@link refuseOtherSchemes}.
 *
 * @param source the parsed `config.json`.
 * @param place the file of the configuration, for messages.
 */
export function parseQuantization(source: unknown, { path, op }: ConfigPlace): QuantizationOf {
  const config = quantizationsIn(source)[0] ?? {};
  const all = valuesOf(config);
  const own = new Map<string, Partial<Quantization>>();
  for (const [module, entry] of Object.entries(config)) {
    if (!isRecord(entry)) continue;
    // A module's mode is affine unless its own entry says otherwise, whatever the mode of other modules.
    const values = valuesOf(entry);
    own.set(module, values.mode === all.mode ? { ...all, ...values } : values);
  }
  return (module) => own.get(module) ?? all;

  function valuesOf(entry: Record<string, unknown>): Partial<Quantization> {
    const bits = numberOf(entry, "bits");
    const group = numberOf(entry, "group_size");
    // Only modes that exist come here: see refuseOtherSchemes.
    const mode = bits === undefined && group === undefined && entry["mode"] === undefined ? undefined : String(entry["mode"] ?? "affine");
    return { ...(bits !== undefined && { bits }), ...(group !== undefined && { group }), ...(mode !== undefined && { mode }) };
  }

  function numberOf(entry: Record<string, unknown>, key: "bits" | "group_size"): number | undefined {
    const value = entry[key];
    if (value === undefined || value === null) return undefined;
    if (typeof value === "number") return value;
    throw new FileError(path ?? "config", { op, expected: `quantization ${key} to be a number`, received: describe(value) });
  }
}

/**
 * Refuses a whole model if its configuration names an unsupported scheme.
 *
 * @throws {UnsupportedError} for GPTQ, AWQ, fp8 and everything else with a `quant_method`, and for modes that MLX does not have.
 */
export function refuseOtherSchemes(source: unknown, { path, op }: ConfigPlace): void {
  const refuse = (key: string, received: string): never => {
    throw new UnsupportedError({ op, argument: `${path ?? "config"}: ${key}`, expected: supportedWeights, received });
  };
  for (const config of quantizationsIn(source)) {
    const method = config["quant_method"];
    if (method !== undefined && method !== null) refuse("quantization_config", `quant_method ${describe(method)}`);
    for (const [name, entry] of [["quantization", config], ...Object.entries(config)] as const) {
      const mode = isRecord(entry) ? entry["mode"] ?? "affine" : "affine";
      if (!modes.includes(mode as string)) refuse(name, `mode ${describe(mode)}`);
    }
  }
}

/** The quantisation settings of a configuration, MLX's key first. */
function quantizationsIn(source: unknown): Record<string, unknown>[] {
  const parts = [source, isRecord(source) ? source["text_config"] : undefined].filter(isRecord);
  const keys = ["quantization", "quantization_config"];
  return keys.flatMap((key) => parts.map((part) => part[key])).filter(isRecord);
}
