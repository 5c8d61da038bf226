/** Requests for answers, in the one form into which those of every API are read. */
import type { GenerateOptions } from "../model/session/session-options.ts";
import type { ChatMessage } from "../model/text/chat-messages.ts";

/** Messages to answer. */
export interface ChatPrompt {
  readonly messages: readonly ChatMessage[];
  /** Descriptions of functions, as chat templates read them. */
  readonly tools: readonly object[];
  /** Values for the chat template, such as `enable_thinking`. */
  readonly variables: Readonly<Record<string, unknown>>;
}

/** A text, or tokens, to continue. */
export interface TextPrompt {
  readonly text: string | readonly number[];
}

export type Prompt = ChatPrompt | TextPrompt;

/** A request for answers. */
export interface AnswerRequest {
  readonly prompt: Prompt;
  readonly options: Omit<GenerateOptions, "signal" | "onProgress">;
  /** The number of answers to the prompt. */
  readonly answers: number;
  /** Whether an answer may have more than one call; otherwise it ends after the first. */
  readonly severalCalls: boolean;
}
