/** Answers in the form of `POST /v1/responses`. */
import type { AnswerEnd, AnswerEvent, AnswerPart, TokenCounts, WholeAnswers } from "../answer-event.ts";
import type { Served } from "../api.ts";
import { namedEvent } from "../event-stream.ts";
import { newId } from "../ids.ts";
import type { Problem } from "../problem.ts";
import { openaiError } from "./failures.ts";
import { sealed } from "./responses-items.ts";
import type { ResponsesBody } from "./responses-schema.ts";
import type { ResponsesTools } from "./responses-tools.ts";

type Item = Readonly<Record<string, unknown>>;
/** The progress of an item or a response. */
type Status = "in_progress" | "completed" | "incomplete";

function usageOf({ prompt, cached, answer, reasoning }: TokenCounts): object {
  return {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: answer,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: prompt + answer,
  };
}

/** The item of a stream to which text is being added. */
interface Open {
  readonly type: "text" | "reasoning";
  readonly id: string;
  text: string;
}

export class ResponsesAnswer {
  readonly #served: Served;
  readonly #body: ResponsesBody;
  readonly #tools: ResponsesTools;
  /** Whether thoughts also come in the form in which a client gives them back. */
  readonly #sealed: boolean;
  readonly #id = newId("resp_");
  readonly #created = Math.floor(Date.now() / 1000);
  /** Items of a stream that are complete. */
  readonly #output: Item[] = [];
  #open: Open | undefined;
  #end: AnswerEnd = { reason: "length", stop: undefined };
  #events = 0;

  constructor(served: Served, body: ResponsesBody, tools: ResponsesTools, withSeal: boolean) {
    this.#served = served;
    this.#body = body;
    this.#tools = tools;
    this.#sealed = withSeal;
  }

  whole({ answers: [answer], counts }: WholeAnswers): object {
    const { parts, end } = answer!;
    const output = parts.map((part, i) => {
      if (part.type === "call") return this.#tools.item(part);
      return this.#textItem(part.type, newId(part.type === "text" ? "msg_" : "rs_"), part.text, i === parts.length - 1 ? statusOf(end) : "completed");
    });
    return this.#response(output, end, counts);
  }

  next(event: AnswerEvent): string {
    switch (event.type) {
      case "begin":
        return ["response.created", "response.in_progress"].map((type) => this.#event(type, { response: this.#response([], undefined, undefined) })).join("");
      case "parts":
        return event.parts.map((part) => this.#part(part)).join("");
      case "end":
        this.#end = event.end;
        return this.#close(statusOf(event.end));
      case "over": {
        const response = this.#response(this.#output, this.#end, event.counts);
        return this.#event(`response.${statusOf(this.#end)}`, { response });
      }
    }
  }

  failed(problem: Problem): string {
    const error = openaiError(problem);
    // This form always has a code. Clients try again unless it is that of a wrong request.
    const code = error.type !== "server_error" ? error.code ?? "invalid_prompt" : problem.kind === "overloaded" ? "rate_limit_exceeded" : "server_error";
    const response = { ...this.#response(this.#output, undefined, undefined), status: "failed", error: { ...error, code } };
    return this.#event("response.failed", { response });
  }

  #part(part: AnswerPart): string {
    if (part.type === "call") {
      const closed = this.#close();
      const item = this.#tools.item(part);
      const [member, event] = item.type === "function_call" ? ["arguments", "response.function_call_arguments"] : ["input", "response.custom_tool_call_input"];
      const of = { item_id: item.id, output_index: this.#output.length };
      const added = this.#event("response.output_item.added", { output_index: of.output_index, item: { ...item, status: "in_progress", [member]: "" } });
      const delta = this.#event(`${event}.delta`, { ...of, delta: item[member] });
      const done = this.#event(`${event}.done`, { ...of, ...(item.type === "function_call" ? { name: item["name"] } : {}), [member]: item[member] });
      return closed + added + delta + done + this.#done(item);
    }
    const begun = this.#open?.type === part.type ? "" : this.#close() + this.#begin(part.type);
    this.#open!.text += part.text;
    const of = { item_id: this.#open!.id, output_index: this.#output.length, content_index: 0, delta: part.text };
    return begun + (part.type === "text" ? this.#event("response.output_text.delta", { ...of, logprobs: [] }) : this.#event("response.reasoning_text.delta", of));
  }

  #begin(type: "text" | "reasoning"): string {
    const id = newId(type === "text" ? "msg_" : "rs_");
    this.#open = { type, id, text: "" };
    const output_index = this.#output.length;
    const item = { ...this.#textItem(type, id, "", "in_progress"), content: [] };
    return this.#event("response.output_item.added", { output_index, item }) + this.#event("response.content_part.added", { item_id: id, output_index, content_index: 0, part: textPart(type, "") });
  }

  /** @param status of the open item, if there is one. */
  #close(status: Status = "completed"): string {
    if (this.#open === undefined) return "";
    const { type, id, text } = this.#open;
    this.#open = undefined;
    const of = { item_id: id, output_index: this.#output.length, content_index: 0 };
    const done = type === "text" ? this.#event("response.output_text.done", { ...of, text, logprobs: [] }) : this.#event("response.reasoning_text.done", { ...of, text });
    return done + this.#event("response.content_part.done", { ...of, part: textPart(type, text) }) + this.#done(this.#textItem(type, id, text, status));
  }

  #done(item: Item): string {
    const output_index = this.#output.push(item) - 1;
    return this.#event("response.output_item.done", { output_index, item });
  }

  #event(type: string, members: object): string {
    return namedEvent({ type, sequence_number: this.#events++, ...members });
  }

  #textItem(type: "text" | "reasoning", id: string, text: string, status: Status): Item {
    if (type === "text") return { id, type: "message", status, role: "assistant", content: [textPart(type, text)] };
    return { id, type: "reasoning", summary: [], content: [textPart(type, text)], ...(this.#sealed ? { encrypted_content: sealed(text) } : {}), status };
  }

  /** @param end undefined while the answer continues. */
  #response(output: readonly Item[], end: AnswerEnd | undefined, counts: TokenCounts | undefined): object {
    const { instructions, max_output_tokens: limit, parallel_tool_calls: parallel, temperature, tool_choice: choice, tools, top_p: topP, text, reasoning, metadata } = this.#body;
    const status = end === undefined ? "in_progress" : statusOf(end);
    return {
      id: this.#id,
      object: "response",
      created_at: this.#created,
      status,
      error: null,
      incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
      instructions: instructions ?? null,
      max_output_tokens: limit ?? null,
      model: this.#served.name,
      output,
      parallel_tool_calls: parallel ?? true,
      previous_response_id: null,
      reasoning: { effort: reasoning?.effort ?? null, summary: null },
      store: false,
      temperature: temperature ?? null,
      text: { format: text?.format ?? { type: "text" } },
      tool_choice: choice ?? "auto",
      tools: tools ?? [],
      top_p: topP ?? null,
      truncation: "disabled",
      usage: counts === undefined ? null : usageOf(counts),
      metadata: metadata ?? {},
    };
  }
}

function statusOf({ reason }: AnswerEnd): Status {
  return reason === "length" ? "incomplete" : "completed";
}

function textPart(type: "text" | "reasoning", text: string): object {
  return type === "text" ? { type: "output_text", text, annotations: [], logprobs: [] } : { type: "reasoning_text", text };
}
