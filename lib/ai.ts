/**
 * A language model for the AI SDK (`ai`), in the same process: its interface `LanguageModelV4`, without HTTP. The types are those of
 * `@ai-sdk/provider` 4, which `ai` 7 brings with it; nothing of it is imported at run time.
 *
 * @module
 */
export { languageModel } from "./ai/language-model.ts";
export type { AiModelOptions, AiProviderOptions } from "./ai/ai-options.ts";
