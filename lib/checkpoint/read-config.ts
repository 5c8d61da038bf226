/** Finds a layer's configuration: an argument, the checkpoint's metadata, or the `config.json` of its folder. */

import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { FileError, describe } from "../errors.ts";
import { foreignToJson } from "./foreign.ts";
import { readWhole } from "./regular-file.ts";
import { reading } from "../arguments/reading.ts";
import type { TensorSource } from "./safetensors.ts";
import { parseLayerConfig, type LayerConfig } from "./mixer-config.ts";
import { parseQuantization, type QuantizationOf } from "./quantization.ts";

/** In bytes; published configurations have about ten thousand. */
const largestConfig = 16 * 1024 * 1024;

/** A configuration as parsed JSON, and its file: undefined for an object that the caller passed. */
export interface ConfigSource {
  readonly config: unknown;
  readonly path: string | undefined;
}

/** The result of {@link readConfig} for a checkpoint, which is read once for all layers. */
const found = new WeakMap<TensorSource, ConfigSource>();

/**
 * The configuration of a checkpoint: the one that was passed; otherwise `config.json` in its folder, if the checkpoint has the name that
 * Hugging Face's folders have; otherwise the JSON `config` in the metadata of the first open file; otherwise `config.json` in its folder.
 *
 * @param given a path of a `config.json`, its parsed contents, or undefined.
 * @throws FileError for a file that is missing or not JSON, and if there is no configuration.
 */
export function readConfig(source: TensorSource, given: string | object | undefined, op: string): ConfigSource {
  if (typeof given === "object") return { config: given, path: undefined };
  if (typeof given === "string") return { config: readJson(given, op), path: given };
  let config = found.get(source);
  if (config === undefined) found.set(source, (config = findConfig(source, op)));
  return config;
}

function findConfig(source: TensorSource, op: string): ConfigSource {
  const inFolder = join(dirname(source.path), "config.json");
  const isThere = existsSync(inFolder);
  const comesFirst = isThere && /^model\.safetensors(?:\.index\.json)?$/.test(basename(source.path));
  const embedded = comesFirst ? undefined : source.metadata.get("config");
  if (embedded !== undefined) return { config: parseJson(new TextEncoder().encode(embedded), source.path, op), path: source.path };
  if (isThere) return { config: readJson(inFolder, op), path: inFolder };
  const expected = "config.json in its folder, a config in its metadata, or the option `config`";
  throw new FileError(source.path, { op, expected, received: "none of them" });
}

/** One layer's part of a configuration. */
export interface ReadLayer {
  readonly config: LayerConfig;
  readonly quantization: QuantizationOf;
}

/** The configuration of one layer: {@link readConfig}, then {@link parseLayerConfig} and {@link parseQuantization}. */
export function readLayerConfig(source: TensorSource, layer: number, given: string | object | undefined, op: string): ReadLayer {
  const { config, path } = readConfig(source, given, op);
  const parse = () => ({ config: parseLayerConfig(config, layer, { path, op }), quantization: parseQuantization(config, { path, op }) });
  return path !== undefined ? parse() : reading(op, "config", parse); // the caller's object may have getters that throw
}

/** Parses a file that should hold JSON. */
export function readJson(path: string, op: string): unknown {
  return parseJson(readWhole(path, op, "a configuration", largestConfig), path, op);
}

function parseJson(bytes: Uint8Array, path: string, op: string): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    const received = foreignToJson(bytes) ?? (cause instanceof Error ? cause.message : describe(cause));
    throw new FileError(path, { op, expected: "a configuration in JSON", received, cause });
  }
}
