/** Makes a model for the AI SDK. */
import { basename, resolve } from "node:path";
import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { invalid } from "../arguments/checks.ts";
import { checkOptions } from "../arguments/options.ts";
import type { LanguageModel } from "../model/language-model.ts";
import { isModel } from "../model/model-memory.ts";
import { wholeAnswers } from "../server/answer-event.ts";
import type { AnswerEvent } from "../server/answer-event.ts";
import { expectCache } from "../server/expect-cache.ts";
import { newId } from "../server/ids.ts";
import { answerEvents } from "../server/run-answer.ts";
import { aiModelOptions } from "./ai-options.ts";
import type { AiModelOptions } from "./ai-options.ts";
import { StreamWriter, contentOf, reasonOf, usageOf } from "./answer.ts";
import { readCall } from "./call.ts";
import type { Call } from "./call.ts";

/**
 * A model for the AI SDK's functions, such as `generateText` and `streamText` of `ai` 7, in this process. Tools, thoughts, objects by
 * schema, seeds and abort signals work; `usage` includes the tokens found in the cache. {@link AiProviderOptions} are further settings
 * of a call. Simultaneous calls share the model's steps.
 *
 * Each call makes a session and ends it: an {@link AiModelOptions.cache} keeps the beginning of a conversation's next call.
 *
 * @example
 * import { generateText } from "ai";
 * const { text } = await generateText({ model: languageModel(model, { cache }), prompt: "Why is the sky blue?" });
 *
 * @param model a model with a tokenizer and a chat template. It must not be disposed before the last call has ended.
 * @throws {GatedDeltaError} that names the argument, for wrong options and a cache of another model; `UnsupportedError` for a model
 *   without a tokenizer or a chat template. A call throws these for messages, tools and settings that are wrong or not supported, such
 *   as images, and as a session's `chat` and `generate`; the signal's reason when aborted.
 * @see Vercel, [Language Model Specification V4](https://ai-sdk.dev/providers/community-providers/custom-providers), 2026
 */
export function languageModel(model: LanguageModel, options: AiModelOptions = {}): LanguageModelV4 {
  const op = "languageModel";
  if (!isModel(model)) throw invalid(op, "model", "a LanguageModel", model);
  const { cache, salt, name = basename(resolve(model.text.folder), ".gguf"), sampling, drafts } = checkOptions(aiModelOptions, op, options);
  expectCache(op, model, cache);
  void [model.text.tokenizer, model.text.template]; // a model without them says so
  const defaults = { drafts, ...(sampling === "model" ? { sampling } : {}) };
  const eventsOf = (call: Call, signal: AbortSignal): AsyncGenerator<AnswerEvent, void, void> => {
    const request = { ...call.request, options: { ...defaults, ...call.request.options } };
    return answerEvents(request, { model, cache, salt: call.salt ?? salt, prefixes: undefined, signal });
  };
  const metadata = () => ({ id: newId("answer_"), timestamp: new Date(), modelId: name });

  return {
    specificationVersion: "v4",
    provider: "gated-delta",
    modelId: name,
    supportedUrls: {},
    async doGenerate(given) {
      const call = readCall("doGenerate", given);
      const { answers: [answer], counts } = await wholeAnswers(eventsOf(call, signalOf(given)), 1);
      const { parts, end } = answer!;
      return { content: parts.map(contentOf), finishReason: reasonOf(end), usage: usageOf(counts), response: metadata(), warnings: call.warnings };
    },
    async doStream(given) {
      const call = readCall("doStream", given);
      const left = new AbortController();
      const events = eventsOf(call, AbortSignal.any([left.signal, signalOf(given)]));
      return { stream: streamOf(partsOf(call, metadata(), events), () => left.abort(new DOMException("The stream was cancelled.", "AbortError"))) };
    },
  };
}

function signalOf({ abortSignal }: LanguageModelV4CallOptions): AbortSignal {
  return abortSignal ?? new AbortController().signal;
}

/** The parts of a stream, of which a failure is the last. */
async function* partsOf({ warnings }: Call, metadata: object, events: AsyncIterable<AnswerEvent>): AsyncGenerator<LanguageModelV4StreamPart, void, void> {
  yield { type: "stream-start", warnings };
  yield { type: "response-metadata", ...metadata };
  const writer = new StreamWriter();
  try {
    for await (const event of events) yield* writer.next(event);
  } catch (error) {
    yield { type: "error", error };
  }
}

/** A stream that asks for the next part when the last one is taken, and ends the work when it is cancelled. */
function streamOf(parts: AsyncGenerator<LanguageModelV4StreamPart, void, void>, leave: () => void): ReadableStream<LanguageModelV4StreamPart> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      leave();
      await parts.return();
    },
  });
}
