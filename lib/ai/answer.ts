/** Answers in the SDK's forms, whole and streamed. */
import type { LanguageModelV4Content, LanguageModelV4FinishReason, LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider";
import type { AnswerEnd, AnswerEvent, AnswerPart, TokenCounts } from "../server/answer-event.ts";
import { newId } from "../server/ids.ts";

const reasons = { stop: "stop", length: "length", calls: "tool-calls" } as const;

/** Why an answer ended. */
export function reasonOf({ reason, stop }: AnswerEnd): LanguageModelV4FinishReason {
  return { unified: reasons[reason], raw: stop === undefined ? reason : `stop sequence ${JSON.stringify(stop)}` };
}

/** Counts of tokens. Cache writes are not counted. */
export function usageOf({ prompt, cached, answer, reasoning }: TokenCounts): LanguageModelV4Usage {
  return {
    inputTokens: { total: prompt, noCache: prompt - cached, cacheRead: cached, cacheWrite: undefined },
    outputTokens: { total: answer, text: answer - reasoning, reasoning },
  };
}

/** A part of a whole answer. */
export function contentOf(part: AnswerPart): LanguageModelV4Content {
  if (part.type !== "call") return { type: part.type, text: part.text };
  return { type: "tool-call", toolCallId: newId("call_"), toolName: part.name, input: part.arguments };
}

/** Writes an answer's events as the parts of a stream: thoughts and text as blocks with a beginning and an end. */
export class StreamWriter {
  #open: { readonly type: "text" | "reasoning"; readonly id: string } | undefined;
  #blocks = 0;
  #end: AnswerEnd = { reason: "length", stop: undefined };

  next(event: AnswerEvent): LanguageModelV4StreamPart[] {
    switch (event.type) {
      case "begin":
        return [];
      case "parts":
        return event.parts.flatMap((part) => this.#part(part));
      case "end":
        this.#end = event.end;
        return this.#close();
      case "over":
        return [{ type: "finish", finishReason: reasonOf(this.#end), usage: usageOf(event.counts) }];
    }
  }

  #part(part: AnswerPart): LanguageModelV4StreamPart[] {
    if (part.type === "call") {
      const { name: toolName, arguments: input } = part;
      const id = newId("call_");
      return [
        ...this.#close(),
        { type: "tool-input-start", id, toolName },
        { type: "tool-input-delta", id, delta: input },
        { type: "tool-input-end", id },
        { type: "tool-call", toolCallId: id, toolName, input },
      ];
    }
    const begun: LanguageModelV4StreamPart[] = this.#open?.type === part.type ? [] : [...this.#close(), this.#begin(part.type)];
    return [...begun, { type: `${part.type}-delta`, id: this.#open!.id, delta: part.text }];
  }

  #begin(type: "text" | "reasoning"): LanguageModelV4StreamPart {
    this.#open = { type, id: `${this.#blocks++}` };
    return { type: `${type}-start`, id: this.#open.id };
  }

  #close(): LanguageModelV4StreamPart[] {
    if (this.#open === undefined) return [];
    const { type, id } = this.#open;
    this.#open = undefined;
    return [{ type: `${type}-end`, id }];
  }
}
