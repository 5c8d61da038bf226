/**
 * Reads MLX's `quantization` in configurations: `bits`, `group_size` and `mode` for all modules, and under the name of a
 * module other values for it, or false (mlx-lm, `utils.py`, `quantize_model`). The tensors decide whether and how a module is
 * quantised; a configuration that contradicts them is refused.
 */

import { FileError, UnsupportedError, describe } from "../errors.ts";
import type { WeightFormat } from "../native/options.ts";
import { weightLayouts, type WeightLayout } from "../native/weight-formats.ts";
import { isRecord } from "./json.ts";
import type { ConfigPlace } from "./config-errors.ts";

/** Bits and group of affine quantised weights. */
export interface Quantization {
  readonly bits: number;
  readonly group: number;
}

/** The quantisation of a module by its name, as far as the configuration states it. */
export type QuantizationOf = (module: string) => Partial<Quantization>;

const affine = (Object.entries(weightLayouts) as [WeightFormat, WeightLayout][]).filter(([, { family }]) => family === "affine");

/** Widths of MLX's affine quantisation. */
export const affineBits: readonly number[] = [...new Set(affine.map(([, { bits }]) => bits ?? 0))];
/** Its groups: numbers of weights of a row that share a scale and a bias. */
export const affineGroups: readonly number[] = [...new Set(affine.map(([, { elements }]) => elements))];

/** The format of affine quantised weights, or undefined if there is none of that width and group. */
export function affineFormat({ bits, group }: Quantization): WeightFormat | undefined {
  return affine.find(([, layout]) => layout.bits === bits && layout.elements === group)?.[0];
}

/** The supported weights, for messages. */
export const supportedWeights = "f32, f16 or bf16 weights, or MLX's affine quantisation (2, 3, 4, 5, 6, 8 bits; groups of 32, 64, 128)";

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
  for (const [module, entry] of Object.entries(config)) if (isRecord(entry)) own.set(module, { ...all, ...valuesOf(entry) });
  return (module) => own.get(module) ?? all;

  function valuesOf(entry: Record<string, unknown>): Partial<Quantization> {
    const bits = numberOf(entry, "bits");
    const group = numberOf(entry, "group_size");
    return { ...(bits !== undefined && { bits }), ...(group !== undefined && { group }) };
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
 * @throws {UnsupportedError} for GPTQ, AWQ, fp8 and everything else with a `quant_method`, and for MLX's modes other than `affine`.
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
      if (mode !== "affine") refuse(name, `mode ${describe(mode)}`);
    }
  }
}

/** The quantisation settings of a configuration, MLX's key first. */
function quantizationsIn(source: unknown): Record<string, unknown>[] {
  const parts = [source, isRecord(source) ? source["text_config"] : undefined].filter(isRecord);
  const keys = ["quantization", "quantization_config"];
  return keys.flatMap((key) => parts.map((part) => part[key])).filter(isRecord);
}
