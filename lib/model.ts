/**
 * Whole language models: a Hugging Face folder, many sequences, and logits whose bits do not depend on how the tokens are split.
 * They run on the devices of the main module.
 *
 * @module
 */
export { LanguageModel } from "./model/language-model.ts";
export { tinyModel } from "./model/tiny-model.ts";
export { Sequence } from "./model/sequence.ts";
export { RunResult } from "./model/run-result.ts";
export type { BatchEntry, IdentityOptions, LoadModelOptions, PagesOptions, Prompts, StatesOptions, TokenRole, WantedLogits, WeightsPlace } from "./model/model-options.ts";
export type { KernelProgress, LoadProgress } from "./model/load-weights.ts";
export type { MatrixUse } from "./checkpoint/matrix.ts";
export type { WeightBytes } from "./checkpoint/tensor-loader.ts";
export type { AttentionConfig, ExpertsConfig, LayerType, ModelConfig } from "./model/model-config.ts";
export { Session } from "./model/session/session.ts";
export { SessionCache } from "./model/session/prefix-cache.ts";
export { ModelText } from "./model/text/model-text.ts";
export { Tokenizer } from "./model/text/tokenizer.ts";
export { Detokenizer } from "./model/text/detokenizer.ts";
export { ChatTemplate } from "./model/text/chat-template.ts";
export type { SessionCacheOptions } from "./model/session/prefix-cache.ts";
export type {
  Answered,
  AppendOptions,
  Completion,
  DraftingOptions,
  GenerateOptions,
  GeneratedPiece,
  LoadSessionOptions,
  Piece,
  ReadOptions,
  ReadProgress,
  SessionOptions,
  Turn,
  Usage,
} from "./model/session/session-options.ts";
export type { LogitsProcessor, SamplingOptions, SamplingSettings } from "./model/sampling/settings.ts";
export type { ConstraintOptions } from "./model/constraints/constraint-grammar.ts";
export type { TokenLogprob } from "./model/sampling/logprobs.ts";
export type { NgramOptions } from "./model/ngram-drafter.ts";
export type { AnswerFormat, Blank, CallFormat, CallSyntax, Tags } from "./model/text/formats/answer-format.ts";
export type { AnswerMessage } from "./model/text/formats/answer-message.ts";
export type { AnswerPiece, AnswerTextPiece, JsonValue, ReasoningPiece, ToolCall, ToolCallPiece } from "./model/text/formats/answer-piece.ts";
export type { ChatMessage } from "./model/text/chat-messages.ts";
export type { ChatOptions } from "./model/text/chat-template.ts";
export type { TextPiece } from "./model/text/jinja/origin.ts";
export type { DecodeOptions, EncodeOptions } from "./model/text/tokenizer.ts";
export type { VocabularyLimits } from "./model/text/vocabulary.ts";
