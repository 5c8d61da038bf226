/** Loads a whole model's weights from a folder, asynchronously. */

import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { ModelConfig } from "./model-config.ts";
import type { ModelWeights } from "./model-weights.ts";

/** How far a load has come. */
export interface LoadProgress {
  /** Bytes that were read so far. */
  readonly bytes: number;
  /** Bytes that will be read. */
  readonly total: number;
  /** The tensor that was read last. */
  readonly tensor: string;
}

/** Options of {@link loadModelWeights}. */
export interface LoadWeightsOptions {
  /** Dtype of the activations between the ops; `f32` by default. Weights stay in the dtype that they are stored in. */
  readonly dtype?: FloatDType | undefined;
  /** Called after every piece that was read. What it throws ends the load. */
  readonly onProgress?: ((progress: LoadProgress) => void) | undefined;
}

/** What a folder gave. */
export interface LoadedModel {
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
  /** Names of tensors that were left out since they belong to other parts: the vision tower's, and those of `mtp.*`. */
  readonly skipped: readonly string[];
}

/** Loads a dense Qwen3.5 text model from a Hugging Face folder. */
export function loadModelWeights(device: Device, folder: string, options: LoadWeightsOptions = {}): Promise<LoadedModel> {
  void [device, folder, options];
  throw new Error("not written yet");
}
