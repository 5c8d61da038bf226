/** Answers in the form of `POST /v1/chat/completions`. */
import type { AnswerEnd, AnswerEvent, AnswerPart, TokenChoice, TokenCounts, WholeAnswers } from "../answer-event.ts";
import { callsOf, textOf } from "../answer-event.ts";
import type { Served } from "../api.ts";
import { dataLine } from "../event-stream.ts";
import { newId } from "../ids.ts";
import { logprobOf } from "./logprobs.ts";

interface Wanted {
  readonly logprobs: boolean;
  /** Whether a stream ends with the counts of tokens. */
  readonly usage: boolean;
}

const reasons: Readonly<Record<AnswerEnd["reason"], string>> = { stop: "stop", length: "length", calls: "tool_calls" };

/** Counts of tokens in OpenAI's form. */
export function usageOf({ prompt, cached, answer, reasoning }: TokenCounts): object {
  return {
    prompt_tokens: prompt,
    completion_tokens: answer,
    total_tokens: prompt + answer,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

export class ChatAnswer {
  readonly #served: Served;
  readonly #wanted: Wanted;
  readonly #id = newId("chatcmpl-");
  readonly #created = Math.floor(Date.now() / 1000);
  /** Answers whose first part was written. */
  readonly #begun = new Set<number>();

  constructor(served: Served, wanted: Wanted) {
    this.#served = served;
    this.#wanted = wanted;
  }

  whole({ answers, counts }: WholeAnswers): object {
    const choices = answers.map(({ parts, choices: tokens, end }, index) => {
      const [content, thoughts, calls] = [textOf(parts, "text"), textOf(parts, "reasoning"), callsOf(parts)];
      const message = {
        role: "assistant",
        content: content === "" && calls.length > 0 ? null : content,
        refusal: null,
        ...(thoughts === "" ? {} : { reasoning_content: thoughts }),
        ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) }),
      };
      return { index, message, logprobs: this.#logprobs(tokens), finish_reason: reasons[end.reason] };
    });
    return { ...this.#head("chat.completion"), choices, usage: usageOf(counts) };
  }

  next(event: AnswerEvent): string {
    switch (event.type) {
      case "begin":
        return this.#delta(0, {});
      case "parts": {
        const { answer, parts, choice } = event;
        const logprobs = choice === undefined ? null : this.#logprobs([choice]);
        // A token that completes several parts belongs to the first.
        if (parts.length === 0) return this.#delta(answer, {}, logprobs);
        return parts.map((part, i) => this.#delta(answer, deltaOf(part), i === 0 ? logprobs : null)).join("");
      }
      case "end":
        return this.#delta(event.answer, {}, null, reasons[event.end.reason]);
      case "over":
        return (this.#wanted.usage ? dataLine({ ...this.#head("chat.completion.chunk"), choices: [], usage: usageOf(event.counts) }) : "") + dataLine("[DONE]");
    }
  }

  #delta(index: number, delta: object, logprobs: object | null = null, reason: string | null = null): string {
    const role = this.#begun.has(index) ? {} : { role: "assistant", content: "" };
    this.#begun.add(index);
    const choices = [{ index, delta: { ...role, ...delta }, logprobs, finish_reason: reason }];
    return dataLine({ ...this.#head("chat.completion.chunk"), choices, ...(this.#wanted.usage ? { usage: null } : {}) });
  }

  #head(object: string): object {
    return { id: this.#id, object, created: this.#created, model: this.#served.name };
  }

  #logprobs(choices: readonly TokenChoice[]): object | null {
    return this.#wanted.logprobs ? { content: choices.map((choice) => logprobOf(this.#served.model, choice)), refusal: null } : null;
  }
}

function callOf({ name, arguments: text }: { readonly name: string; readonly arguments: string }): object {
  return { id: newId("call_"), type: "function", function: { name, arguments: text } };
}

function deltaOf(part: AnswerPart): object {
  if (part.type === "call") return { tool_calls: [{ index: part.index, ...callOf(part) }] };
  return part.type === "text" ? { content: part.text } : { reasoning_content: part.text };
}
