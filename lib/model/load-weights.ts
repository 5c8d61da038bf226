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
import type { Streamed, WeightBytes } from "../checkpoint/tensor-loader.ts";
import { nextTurn, turns } from "../turns.ts";
import { adapterError } from "../checkpoint/other-folders.ts";
import { downloadAdvice, openCheckpoint } from "../checkpoint/safetensors.ts";
import type { TensorSource } from "../checkpoint/safetensors.ts";
import type { MatrixUse } from "../checkpoint/matrix.ts";
import type { ActivationForm } from "../native/options.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { storedTensors } from "./identity/stored-tensors.ts";
import type { StoredTensor } from "./identity/stored-tensors.ts";
import type { ModelConfig } from "./model-config.ts";
import type { WeightsPlace } from "./model-options.ts";
import { folderOf } from "./text/text-files.ts";
import type { ModelWeights } from "./model-weights.ts";
import { parseEnds, parseModelConfig } from "./parse-config.ts";
import { planModel } from "./plan-model.ts";

/** The progress of compiling kernels. */
export interface KernelProgress {
  /** Number of passes whose kernels are compiled. */
  readonly ready: number;
  /** Number of passes whose kernels are compiled while weights are read: 0 where kernels are precompiled. */
  readonly total: number;
}

/** The progress of a load. */
export interface LoadProgress {
  /** Bytes read so far. */
  readonly bytes: number;
  /** All bytes to read; mapped weights are not read. */
  readonly total: number;
  /** The tensor of the last piece; empty before the first. */
  readonly tensor: string;
  /** The model's kernels, which a GPU compiles meanwhile. */
  readonly kernels: KernelProgress;
}

/** A model whose weights have memory. */
export type UnreadModel = Pick<LoadedModel, "config" | "weights" | "dtype">;

/** Options of {@link loadModelWeights}. */
export interface LoadWeightsOptions {
  /** Dtype of the activations between the ops, as in {@link LoadModelOptions}. Weights stay in their stored dtype. */
  readonly dtype?: FloatDType | undefined;
  /** Called after every piece is read, and after kernels are compiled. An error that it throws ends the load. */
  readonly onProgress?: ((progress: LoadProgress) => void) | undefined;
  /** Compiles the kernels of a model whose weights have memory and are being read. */
  readonly prepare?: ((model: UnreadModel, progress: (kernels: KernelProgress) => void) => Promise<void>) | undefined;
  /** Whether weights stay in their files; `copied` by default. */
  readonly weights?: WeightsPlace | undefined;
  /** How activations are multiplied by packed weights; `exact` by default. */
  readonly activations?: ActivationForm | undefined;
  /** Called before the first weight is read. An error that it throws ends the load. */
  readonly expectFits?: ((config: ModelConfig, bytes: WeightBytes, dtype: FloatDType) => void) | undefined;
}

/** A model of a folder. */
export interface LoadedModel {
  /** The place of the model's text: the given folder, the given file's folder, or a GGUF file. */
  readonly folder: string;
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
  /** The dtype of the activations. */
  readonly dtype: FloatDType;
  /** Bytes of the weights. */
  readonly bytes: WeightBytes;
  /** Names of tensors that were not loaded: those of a vision tower and of `mtp.*`. */
  readonly skipped: readonly string[];
  /** How activations are multiplied by each matrix. */
  readonly matrices: readonly MatrixUse[];
  /** The places of the loaded tensors. */
  readonly stored: readonly StoredTensor[];
}

const op = "LanguageModel.load";

/**
 * Loads a text model of a known family from a Hugging Face folder, as transformers or mlx-lm writes one, or from a
 * GGUF file. Tensors are mapped, or read in the background, in pieces of a few MiB, straight into library memory, so that no
 * further memory is needed.
 *
 * @throws {FileError} (as a rejection, like the others) for a folder without a checkpoint or a configuration, files that
 * are damaged, and tensors that are missing or whose shapes contradict the configuration; {@link UnsupportedError} for
 * other architectures, other quantisations and tensors that no part of the model uses; {@link DTypeError} for other
 * dtypes; {@link DisposedError} if the device is closed meanwhile. Nothing stays allocated then.
 */
export async function loadModelWeights(device: Device, folder: string, options: LoadWeightsOptions = {}): Promise<LoadedModel> {
  const { onProgress, expectFits, prepare } = options;
  return await planned(device, folder, options, async ({ source, loader, alive, config, weights, dtype, skipped, matrices }) => {
    const { bytes } = loader;
    expectFits?.(config, bytes, dtype);
    let read: Streamed = { bytes: 0, total: loader.left, tensor: "" };
    let kernels: KernelProgress = { ready: 0, total: 0 };
    const told = (): void => onProgress?.({ ...read, kernels });
    const prepared = prepare?.({ config, weights, dtype }, (now) => {
      kernels = now;
      if (now.ready > 0) told();
    });
    // Both use the weights' memory, so neither ends before the other.
    const [streamed, compiled] = await Promise.allSettled([
      loader.stream(alive, (now) => {
        read = now;
        told();
      }),
      prepared,
    ]);
    for (const end of [streamed, compiled]) if (end.status === "rejected") throw end.reason;
    alive();
    const stored = storedTensors(source, (name) => loader.wants(name));
    return { folder: folderOf(folder), config, weights, dtype, bytes, skipped, matrices, stored };
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
  readonly dtype: FloatDType;
  readonly skipped: readonly string[];
  readonly matrices: readonly MatrixUse[];
}

/** Plans a model and passes it to `use`, which takes over its weights unless it throws. */
async function planned<Result>(device: Device, folder: string, options: LoadWeightsOptions, use: (planned: Planned) => Promise<Result>): Promise<Result> {
  const { dtype: given, weights: at = "copied", activations = "exact" } = options;
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
  using loader = new TensorLoader(device, source, op, parseQuantization(json, place), inPlace, activations);
  const turn = turns();
  const { weights, dtype, skipped, tied, matrices } = await planModel(device, loader, family, parsed, given, async () => {
    await turn();
    alive();
  });
  try {
    return await use({ source, loader, alive, config: { ...parsed, tied, eosTokens }, weights, dtype, skipped, matrices });
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
  // A GGUF file's metadata hold all settings of its model.
  const path = join(dirname(source.path), "generation_config.json");
  const generation = !(source instanceof GgufCheckpoint) && existsSync(path) ? readJson(path, op) : undefined;
  return parseEnds(json, place, generation, { path, op });
}
