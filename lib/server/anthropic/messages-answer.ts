/** Answers in the form of `POST /v1/messages`. */
import { parseWithDigits } from "../../model/text/json-digits.ts";
import type { AnswerEnd, AnswerEvent, AnswerPart, TokenCounts, WholeAnswers } from "../answer-event.ts";
import type { Served } from "../api.ts";
import { namedEvent } from "../event-stream.ts";
import { newId } from "../ids.ts";

/** Thoughts come with a signature by which their server recognises them. These thoughts need none. */
const signature = "gated-delta";

function usageOf({ prompt, cached, answer, reasoning }: TokenCounts) {
  const counts = { input_tokens: prompt - cached, cache_creation_input_tokens: 0, cache_read_input_tokens: cached, output_tokens: answer };
  return { ...counts, output_tokens_details: { thinking_tokens: reasoning } };
}

function stopOf({ reason, stop }: AnswerEnd): object {
  const why = stop !== undefined && reason !== "calls" ? "stop_sequence" : { stop: "end_turn", length: "max_tokens", calls: "tool_use" }[reason];
  return { stop_reason: why, stop_sequence: why === "stop_sequence" ? stop : null };
}

export class MessagesAnswer {
  readonly #served: Served;
  readonly #id = newId("msg_");
  /** The type of the open block, to which the next text belongs if it has the same type. */
  #open: "text" | "reasoning" | undefined;
  #blocks = 0;
  #end: AnswerEnd = { reason: "length", stop: undefined };

  constructor(served: Served) {
    this.#served = served;
  }

  whole({ answers: [answer], counts }: WholeAnswers): object {
    const content = answer!.parts.map((part) => {
      if (part.type === "call") return { type: "tool_use", id: newId("toolu_"), name: part.name, input: parseWithDigits(part.arguments) };
      return part.type === "text" ? { type: "text", text: part.text } : { type: "thinking", thinking: part.text, signature };
    });
    return { ...this.#head(), content, ...stopOf(answer!.end), usage: usageOf(counts) };
  }

  next(event: AnswerEvent): string {
    switch (event.type) {
      case "begin":
        return namedEvent({ type: "message_start", message: { ...this.#head(), content: [], stop_reason: null, stop_sequence: null, usage: usageOf(event.counts) } });
      case "parts":
        return event.parts.map((part) => this.#part(part)).join("");
      case "end":
        this.#end = event.end;
        return this.#close();
      case "over":
        return namedEvent({ type: "message_delta", delta: stopOf(this.#end), usage: usageOf(event.counts) }) + namedEvent({ type: "message_stop" });
    }
  }

  #part(part: AnswerPart): string {
    if (part.type === "call") {
      const start = this.#start({ type: "tool_use", id: newId("toolu_"), name: part.name, input: {} });
      return start + this.#delta({ type: "input_json_delta", partial_json: part.arguments }) + this.#stop();
    }
    const start = this.#open === part.type ? "" : this.#start(part.type === "text" ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" });
    this.#open = part.type;
    return start + this.#delta(part.type === "text" ? { type: "text_delta", text: part.text } : { type: "thinking_delta", thinking: part.text });
  }

  /** Begins the next block, once the previous one is closed. */
  #start(block: object): string {
    return this.#close() + namedEvent({ type: "content_block_start", index: this.#blocks, content_block: block });
  }

  #delta(delta: object): string {
    return namedEvent({ type: "content_block_delta", index: this.#blocks, delta });
  }

  #stop(): string {
    return namedEvent({ type: "content_block_stop", index: this.#blocks++ });
  }

  #close(): string {
    if (this.#open === undefined) return "";
    const signed = this.#open === "reasoning" ? this.#delta({ type: "signature_delta", signature }) : "";
    this.#open = undefined;
    return signed + this.#stop();
  }

  #head() {
    return { id: this.#id, type: "message", role: "assistant", model: this.#served.name };
  }
}
