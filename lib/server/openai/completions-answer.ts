/** Answers in the form of `POST /v1/completions`. */
import { textOf } from "../answer-event.ts";
import type { AnswerEnd, AnswerEvent, TokenChoice, WholeAnswers } from "../answer-event.ts";
import type { Served } from "../api.ts";
import { dataLine } from "../event-stream.ts";
import { newId } from "../ids.ts";
import { usageOf } from "./chat-answer.ts";
import { logprobOf } from "./logprobs.ts";
import { TextOffsets } from "./text-offsets.ts";

interface Wanted {
  readonly logprobs: boolean;
  /** Whether a stream ends with the counts of tokens. */
  readonly usage: boolean;
}

export class CompletionsAnswer {
  readonly #served: Served;
  readonly #wanted: Wanted;
  readonly #id = newId("cmpl-");
  readonly #created = Math.floor(Date.now() / 1000);
  /** The text offsets, by answer. */
  readonly #offsets = new Map<number, TextOffsets>();

  constructor(served: Served, wanted: Wanted) {
    this.#served = served;
    this.#wanted = wanted;
  }

  whole({ answers, counts }: WholeAnswers): object {
    const choices = answers.map(({ parts, choices: tokens, end }, i) => this.#choice(i, textOf(parts, "text"), tokens, end));
    return { ...this.#head(), choices, usage: usageOf(counts) };
  }

  next(event: AnswerEvent): string {
    switch (event.type) {
      case "begin":
        return "";
      case "parts":
        return this.#chunk(this.#choice(event.answer, textOf(event.parts, "text"), event.choice === undefined ? [] : [event.choice], undefined));
      case "end":
        return this.#chunk(this.#choice(event.answer, "", [], event.end));
      case "over":
        return (this.#wanted.usage ? dataLine({ ...this.#head(), choices: [], usage: usageOf(event.counts) }) : "") + dataLine("[DONE]");
    }
  }

  #chunk(choice: object): string {
    return dataLine({ ...this.#head(), choices: [choice], ...(this.#wanted.usage ? { usage: null } : {}) });
  }

  #choice(index: number, text: string, tokens: readonly TokenChoice[], end: AnswerEnd | undefined): object {
    const reason = end === undefined ? null : end.reason === "length" ? "length" : "stop";
    return { text, index, logprobs: this.#wanted.logprobs && tokens.length > 0 ? this.#logprobs(index, tokens) : null, finish_reason: reason };
  }

  #logprobs(answer: number, choices: readonly TokenChoice[]): object {
    const { model } = this.#served;
    const described = choices.map((choice) => logprobOf(model, choice, "bytes:"));
    const offsets = this.#offsets.get(answer) ?? new TextOffsets(model.text.tokenizer);
    this.#offsets.set(answer, offsets);
    return {
      tokens: described.map(({ token }) => token),
      token_logprobs: described.map(({ logprob }) => logprob),
      top_logprobs: described.map(({ top_logprobs: top }) => byName(top)),
      text_offset: choices.map(({ token }) => offsets.next(token)),
    };
  }

  #head(): object {
    return { id: this.#id, object: "text_completion", created: this.#created, model: this.#served.name };
  }
}

/** Log probabilities by name. Of equal names, such as those of ids without text, the most likely one is kept. */
function byName(top: readonly { readonly token: string; readonly logprob: number }[]): object {
  const named = new Map<string, number>();
  for (const { token, logprob } of top) if (!named.has(token)) named.set(token, logprob);
  return Object.fromEntries(named);
}
