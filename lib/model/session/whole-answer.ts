/** Generations that run to their end. */
import { GatedDeltaError } from "../../errors.ts";
import type { AnswerMessage } from "../text/formats/answer-message.ts";
import type { Conversation } from "./conversation.ts";
import { answerMessage, dialogueOf } from "./dialogue.ts";
import type { Answered, Completion, Piece } from "./session-options.ts";

/** All pieces of a conversation's generation as one. */
export async function completed(of: Conversation, pieces: AsyncIterable<Piece>): Promise<Completion> {
  const { length: promptTokens, known, cached } = of.counts;
  const tokens: number[] = [];
  let text = "";
  let end: Piece["end"];
  for await (const piece of pieces) {
    if (piece.token >= 0) tokens.push(piece.token);
    text += piece.text;
    end = piece.end;
  }
  const cachedTokens = known + of.counts.cached - cached;
  return { text, tokens, end: end ?? "length", usage: { promptTokens, cachedTokens, generatedTokens: tokens.length } };
}

/** The answer without tokens. */
const emptyAnswer: AnswerMessage = Object.freeze({ role: "assistant", content: "" });

/**
 * The answer to a conversation's messages.
 *
 * @param complete generates the rest of the answer.
 * @throws {GatedDeltaError} as {@link Session.answer}.
 */
export async function answered(op: string, of: Conversation, complete: () => Promise<Completion>): Promise<Answered> {
  const { template, tokenizer } = of.model.text;
  void [template, tokenizer]; // a model without them says so
  if (dialogueOf(op, of).answer === undefined) {
    throw new GatedDeltaError("state", { op, message: "this session has no messages to answer: call chat first, with the start of an answer" });
  }
  const completion = await complete();
  const message = answerMessage(of, dialogueOf(op, of)) ?? emptyAnswer;
  const { content, reasoning_content: reasoning = "", tool_calls: calls = [] } = message;
  return { ...completion, message, content, reasoning, toolCalls: calls.map(({ function: call }) => call) };
}
