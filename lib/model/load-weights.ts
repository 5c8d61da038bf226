/** Loads a whole model's weights from a folder or a GGUF file, asynchronously. */

import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { invalid } from "../arguments/checks.ts";
import { importZod } from "../arguments/import-zod.ts";
import type { Device } from "../device/device.ts";
import { DisposedError, FileError } from "../errors.ts";
import type { ConfigPlace } from "../checkpoint/config-errors.ts";
import { GgufCheckpoint } from "../checkpoint/gguf/gguf-checkpoint.ts";
import { parseQuantization } from "../checkpoint/quantization.ts";
import { readConfig, readJson } from "../checkpoint/read-config.ts";
import { TensorLoader } from "../checkpoint/tensor-loader.ts";
import type { WeightBytes } from "../checkpoint/tensor-loader.ts";
import { nextTurn, turns } from "../turns.ts";
import { adapterError } from "../checkpoint/other-folders.ts";
import { downloadAdvice, openCheckpoint } from "../checkpoint/safetensors.ts";
import type { TensorSource } from "../checkpoint/safetensors.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { storedTensors } from "./identity/stored-tensors.ts";
import type { StoredTensor } from "./identity/stored-tensors.ts";
import type { ModelConfig } from "./model-config.ts";
import type { WeightsPlace } from "./model-options.ts";
import { folderOf } from "./text/text-files.ts";
import type { ModelWeights } from "./model-weights.ts";
import { parseEnds, parseModelConfig } from "./parse-config.ts";
import { planModel } from "./plan-model.ts";

/** The progress of a load. */
export interface LoadProgress {
  /** Bytes read so far. */
  readonly bytes: number;
  /** All bytes to read; those of mapped weights are not read. */
  readonly total: number;
  /** The tensor of the last piece. */
  readonly tensor: string;
}

/** Options of {@link loadModelWeights}. */
export interface LoadWeightsOptions {
  /** Dtype of the activations between the ops; `f32` by default. Weights stay in their stored dtype. */
  readonly dtype?: FloatDType | undefined;
  /** Called after every piece is read. An error that it throws ends the load. */
  readonly onProgress?: ((progress: LoadProgress) => void) | undefined;
  /** Whether weights stay in their files; `copied` by default. */
  readonly weights?: WeightsPlace | undefined;
  /** Called before the first weight is read. An error that it throws ends the load. */
  readonly expectFits?: ((config: ModelConfig, bytes: WeightBytes) => void) | undefined;
}

/** A model of a folder. */
export interface LoadedModel {
  /** Where its text is: the given folder, that of the given file, or a GGUF file. */
  readonly folder: string;
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
  /** Their bytes. */
  readonly bytes: WeightBytes;
  /** Names of tensors that were not loaded: those of a vision tower and of `mtp.*`. */
  readonly skipped: readonly string[];
  /** The places of the loaded tensors. */
  readonly stored: readonly StoredTensor[];
}

const op = "LanguageModel.load";

/**
 * Loads a text model of a known family from a Hugging Face folder, as transformers or mlx-lm writes one, or from a
 * GGUF file. Tensors are mapped, or read in the background, in pieces of some MiB, straight into library memory, so that no further
 * memory is needed.
 *
 * @throws {FileError} (as a rejection, like the others) for a folder without a checkpoint or a configuration, files that
 * are damaged, and tensors that are missing or of other shapes than the configuration says; {@link UnsupportedError} for
 * other architectures, other quantisations and tensors that no part of the model uses; {@link DTypeError} for other
 * dtypes; {@link DisposedError} if the device is closed meanwhile. Nothing stays allocated then.
 */
export async function loadModelWeights(device: Device, folder: string, options: LoadWeightsOptions = {}): Promise<LoadedModel> {
  const { onProgress, expectFits } = options;
  return await planned(device, folder, options, async ({ source, loader, alive, config, weights, skipped }) => {
    const { bytes } = loader;
    expectFits?.(config, bytes);
    await loader.stream(alive, (progress) => onProgress?.(progress));
    alive();
    const stored = storedTensors(source, (name) => loader.wants(name));
    return { folder: folderOf(folder), config, weights, bytes, skipped, stored };
  });
}

/**
 * The bytes of a folder's weights that a load with `weights: "mapped"` maps and copies. Nothing is read.
 *
 * @throws as {@link loadModelWeights}.
 */
export async function weighModel(device: Device, folder: string): Promise<WeightBytes> {
  return await planned(device, folder, { weights: "mapped" }, ({ loader, weights }) => {
    weights[Symbol.dispose]();
    return Promise.resolve(loader.bytes);
  });
}

/** A model whose tensors are found and have memory, but are not read. */
interface Planned {
  readonly source: TensorSource;
  readonly loader: TensorLoader;
  /** Throws if the device is closed. */
  readonly alive: () => void;
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
  readonly skipped: readonly string[];
}

/** Plans a model and passes it to `use`, which takes over its weights unless it throws. */
async function planned<Result>(device: Device, folder: string, options: LoadWeightsOptions, use: (planned: Planned) => Promise<Result>): Promise<Result> {
  const { dtype = "f32", weights: at = "copied" } = options;
  expectFolder(folder);
  const alive = () => {
    if (device.closed) throw new DisposedError({ op, argument: "device", expected: "a device that is open", received: "a closed one" });
  };
  await importZod();
  using source = openCheckpoint(folder, op);
  refuseAdapter(source);
  const { config: json, path } = readConfig(source, undefined, op);
  const place = { path, op };
  await nextTurn();
  const { family, config: parsed } = parseModelConfig(json, place);
  const eosTokens = readEnds(source, json, place);
  await nextTurn();
  alive();
  const inPlace = at === "mapped" ? (name: string) => !family.elsewhere.test(name) : undefined;
  using loader = new TensorLoader(device, source, op, parseQuantization(json, place), inPlace);
  const turn = turns();
  const { weights, skipped, tied } = await planModel(device, loader, family, parsed, dtype, async () => {
    await turn();
    alive();
  });
  try {
    return await use({ source, loader, alive, config: { ...parsed, tied, eosTokens }, weights, skipped });
  } catch (error) {
    weights[Symbol.dispose]();
    throw error;
  }
}

function expectFolder(folder: string): void {
  if (typeof folder !== "string" || folder === "") throw invalid(op, "folder", "the path of a model's folder", folder);
  let found;
  try {
    found = statSync(folder, { throwIfNoEntry: false });
  } catch {
    return; // opening it reports the reason
  }
  if (found === undefined) throw new FileError(folder, { op, expected: `a model's folder${downloadAdvice(folder)}`, received: "no such file or folder" });
  if (found.isFile() && folder.endsWith(".json")) throw new FileError(folder, { op, expected: "a model's folder", received: "a file in one" });
}

/** Refuses an adapter, recognised by the names of peft's (`lora_A`) or mlx-lm's (`lora_a`) modules. */
function refuseAdapter(source: TensorSource): void {
  if (source.names.some((name) => /\.lora_(?:[ABab]|embedding_[AB])(?:\.|$)/.test(name))) throw adapterError(op, source.path, undefined);
}

function readEnds(source: TensorSource, json: unknown, place: ConfigPlace): number[] {
  // The metadata of a GGUF file are all of its model's settings.
  const path = join(dirname(source.path), "generation_config.json");
  const generation = !(source instanceof GgufCheckpoint) && existsSync(path) ? readJson(path, op) : undefined;
  return parseEnds(json, place, generation, { path, op });
}
