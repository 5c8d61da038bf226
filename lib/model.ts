/**
 * Whole language models: a Hugging Face folder, many sequences, and logits whose bits do not depend on how the tokens came.
 * They run on the devices of the main module.
 *
 * @module
 */
export { LanguageModel } from "./model/language-model.ts";
export { Sequence } from "./model/sequence.ts";
export { RunResult } from "./model/run-result.ts";
export type { BatchEntry, LoadModelOptions, PagesOptions, StatesOptions, WantedLogits } from "./model/model-options.ts";
export type { LoadProgress } from "./model/load-weights.ts";
export type { AttentionConfig, LayerType, ModelConfig } from "./model/model-config.ts";
