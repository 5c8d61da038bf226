/** Options of a model for the AI SDK, and a call's options in addition to the SDK's own. */
import { options } from "../arguments/schemas.ts";
import type { SessionCache } from "../model/session/prefix-cache.ts";
import type { GenerateOptions } from "../model/session/session-options.ts";

/** Options of {@link languageModel}. */
export interface AiModelOptions {
  /** A cache of the model, with which a conversation's next call reads only the new messages. @default none */
  readonly cache?: SessionCache | undefined;
  /** Calls with different salts, such as user names, share nothing in the cache. @default "" */
  readonly salt?: string | undefined;
  /** The model's name: the SDK's `modelId`. @default the name of the model's folder or file */
  readonly name?: string | undefined;
  /**
   * The sampling settings that a call does not give: those of the model's `generation_config.json` (`"model"`), or those that choose
   * the most likely tokens (`"greedy"`). @default "model"
   */
  readonly sampling?: "model" | "greedy" | undefined;
  /** Whether the next tokens are guessed from the earlier text: the same answers in fewer steps. @default false */
  readonly drafts?: boolean | undefined;
}

/**
 * Options of a call as `providerOptions: { gatedDelta: … }`: settings of a generation that the SDK has no names for, such as `minP`,
 * `repetitionPenalty`, `logitBias`, `maxReasoningTokens`, `grammar` and `regex`. If both are given, the SDK's own settings take
 * precedence. The SDK's answers have no probabilities, so there is no `logprobs`.
 */
export interface AiProviderOptions extends Omit<GenerateOptions, "signal" | "onProgress" | "processors" | "regex" | "logprobs" | "topLogprobs"> {
  /** The whole answer matches this regular expression, as {@link GenerateOptions.regex}. @default none */
  readonly regex?: string | undefined;
  /** A salt for this call instead of the model's. @default {@link AiModelOptions.salt} */
  readonly salt?: string | undefined;
  /** Values for the chat template, such as `enable_thinking`. @default none */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
}

/** {@link AiModelOptions} */
export const aiModelOptions = options<AiModelOptions>()(({ z, choice, flag }) => ({
  // The model's sessions check that it is a cache of this model.
  cache: z.custom<SessionCache>(() => true).optional(),
  salt: z.string("a text").default(""),
  name: z.string("a text").min(1, "a text that is not empty").optional(),
  sampling: choice("model", "greedy").default("model"),
  drafts: flag.default(false),
}));
