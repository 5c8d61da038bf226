/** Answers as they come, and whole answers, in the form from which those of every API are written. */
import type { TokenLogprob } from "../model/sampling/logprobs.ts";

/** A part of an answer that is certain. A call comes whole, since text that begins like one may turn out not to be one. */
export type AnswerPart =
  | { readonly type: "reasoning" | "text"; readonly text: string }
  | { readonly type: "call"; readonly index: number; readonly name: string; readonly arguments: string };

/** A token and its probability. */
export interface TokenChoice {
  readonly token: number;
  readonly logprob: number;
  readonly top: readonly TokenLogprob[];
}

/** Why an answer ended: `stop` has the stop string, where one ended it. */
export interface AnswerEnd {
  readonly reason: "stop" | "length" | "calls";
  readonly stop: string | undefined;
}

/** Counts of tokens. */
export interface TokenCounts {
  readonly prompt: number;
  /** Tokens of the prompt that were known. */
  readonly cached: number;
  /** Known tokens that were in the store. */
  readonly restored: number;
  /** Tokens of all answers. */
  readonly answer: number;
  /** Tokens of thoughts. */
  readonly reasoning: number;
}

/** An event of the answers to a request, in order: `begin`, any number of `parts` and one `end` for each answer, `over`. */
export type AnswerEvent =
  | { readonly type: "begin"; readonly counts: TokenCounts }
  | { readonly type: "parts"; readonly answer: number; readonly parts: readonly AnswerPart[]; readonly choice: TokenChoice | undefined }
  | { readonly type: "end"; readonly answer: number; readonly end: AnswerEnd }
  | { readonly type: "over"; readonly counts: TokenCounts };

/** A whole answer. Adjacent thoughts are one part, and so are adjacent texts. */
export interface WholeAnswer {
  readonly parts: readonly AnswerPart[];
  readonly choices: readonly TokenChoice[];
  readonly end: AnswerEnd;
}

/** All answers to a request. */
export interface WholeAnswers {
  readonly answers: readonly WholeAnswer[];
  readonly counts: TokenCounts;
}

/** The text of an answer's parts of one kind; empty if there are none. */
export function textOf(parts: readonly AnswerPart[], type: "reasoning" | "text"): string {
  return parts.map((part) => (part.type === type ? part.text : "")).join("");
}

/** The calls among an answer's parts. */
export function callsOf(parts: readonly AnswerPart[]) {
  return parts.filter((part) => part.type === "call");
}

/** Combines the events of a request. */
export async function wholeAnswers(events: AsyncIterable<AnswerEvent>, count: number): Promise<WholeAnswers> {
  const answers = Array.from({ length: count }, () => ({ parts: [] as AnswerPart[], choices: [] as TokenChoice[], end: { reason: "length", stop: undefined } as AnswerEnd }));
  let counts: TokenCounts = { prompt: 0, cached: 0, restored: 0, answer: 0, reasoning: 0 };
  for await (const event of events) {
    if (event.type === "begin" || event.type === "over") counts = event.counts;
    else if (event.type === "end") answers[event.answer]!.end = event.end;
    else {
      const { parts, choices } = answers[event.answer]!;
      if (event.choice !== undefined) choices.push(event.choice);
      for (const part of event.parts) {
        const last = parts.at(-1);
        if (last !== undefined && last.type !== "call" && part.type === last.type) parts[parts.length - 1] = { type: last.type, text: last.text + part.text };
        else parts.push(part);
      }
    }
  }
  return { answers, counts };
}
