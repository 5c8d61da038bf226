/** Where a layer's configuration comes from: an argument, the checkpoint's metadata, or the `config.json` beside it. */

import { closeSync, existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { FileError, describe } from "../errors.ts";
import { openRegularFile, readFully } from "../safetensors/file.ts";
import { reading } from "../arguments/reading.ts";
import type { TensorSource } from "../safetensors/safetensors.ts";
import { parseLayerConfig, type LayerConfig } from "./config.ts";

const op = "GatedDeltaNet.load";

/** No configuration comes near this; a larger file is something else. */
const largestConfig = 16 * 1024 * 1024;

/**
 * The configuration of a checkpoint's layer. What was passed wins; then the `config` that a file carries in its own
 * metadata, as JSON; then `config.json` in the checkpoint's folder.
 *
 * @param given a path of a `config.json`, its parsed contents, or undefined.
 */
export function readLayerConfig(source: TensorSource, layer: number, given: string | object | undefined): LayerConfig {
  if (typeof given === "object") return reading(op, "config", () => parseLayerConfig(given, layer));
  if (typeof given === "string") return parseLayerConfig(readJson(given), layer, given);
  const embedded = source.metadata.get("config");
  if (embedded !== undefined) return parseLayerConfig(parseJson(embedded, source.path), layer, source.path);
  const beside = join(dirname(source.path), "config.json");
  if (existsSync(beside)) return parseLayerConfig(readJson(beside), layer, beside);
  const expected = "config.json beside it, a config in its metadata, or the option `config`";
  throw new FileError(source.path, { op, expected, received: "none of them" });
}

function readJson(path: string): unknown {
  const { descriptor, size } = openRegularFile(path, op);
  try {
    if (size > largestConfig) {
      const expected = `at most ${largestConfig} bytes of configuration`;
      throw new FileError(path, { op, expected, received: String(size) });
    }
    const bytes = new Uint8Array(size);
    readFully(path, descriptor, 0, bytes);
    return parseJson(new TextDecoder().decode(bytes), path);
  } finally {
    closeSync(descriptor);
  }
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const received = cause instanceof Error ? cause.message : describe(cause);
    throw new FileError(path, { op, expected: "a configuration in JSON", received, cause });
  }
}
