/** All APIs, and the form of failures for each path. */
import { anthropicFailures } from "./anthropic/failures.ts";
import { countTokens, messages } from "./anthropic/messages-request.ts";
import type { Api, FailureForm } from "./api.ts";
import { chatCompletions } from "./openai/chat-request.ts";
import { completions } from "./openai/completions-request.ts";
import { openaiFailures } from "./openai/failures.ts";
import { responses } from "./openai/responses-request.ts";

const apis: readonly Api[] = [chatCompletions, completions, responses, messages, countTokens];

/** The APIs by their paths. */
export const apiOf: ReadonlyMap<string, Api> = new Map(apis.map((api) => [api.path, api]));

/** The form of a request's failures. If the path belongs to no single vendor, a header identifies Anthropic's clients. */
export function failuresOf(path: string, headers: { has(name: string): boolean }): FailureForm {
  return apiOf.get(path)?.failures ?? (headers.has("anthropic-version") ? anthropicFailures : openaiFailures);
}
