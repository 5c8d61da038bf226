/** A session's conversation as messages. Values are frozen, so that forks share them. */
import { GatedDeltaError } from "../../errors.ts";
import { messageOf } from "../text/formats/answer-message.ts";
import type { AnswerFormat } from "../text/formats/answer-format.ts";
import type { AnswerMessage } from "../text/formats/answer-message.ts";
import { AnswerParser } from "../text/formats/answer-parser.ts";
import type { ChatMessage } from "../text/chat-messages.ts";
import type { ChatOptions } from "../text/chat-template.ts";
import type { Conversation } from "./conversation.ts";

/** The template's options, each of which stays until a turn changes it. */
export type ChatSettings = Omit<ChatOptions, "addGenerationPrompt">;

/** The answer that a prompt asks for. */
export interface AnswerPlace {
  /** How many tokens come before the answer. */
  readonly start: number;
  /** Whether the answer begins inside thoughts, because the prompt ends there. */
  readonly reasoning: "open" | "closed";
}

/** Messages whose rendered text the session's tokens are, followed by the tokens of an answer. */
export interface Dialogue {
  /** The messages of all turns and the answers between them. */
  readonly messages: readonly ChatMessage[];
  readonly settings: ChatSettings;
  /** The answer after the messages; undefined if the last turn asked for none. */
  readonly answer: AnswerPlace | undefined;
}

/** The dialogue of a session without tokens. */
export const noDialogue: Dialogue = Object.freeze({ messages: Object.freeze([]), settings: Object.freeze({}), answer: undefined });

/** The format of a session's answers. */
export function answerFormat(of: Conversation, { template }: ChatSettings): AnswerFormat {
  return of.model.text.template.format(template);
}

/** A parser for an answer of a session, from its beginning. */
export function answerParser(of: Conversation, { settings }: Dialogue, { reasoning }: AnswerPlace): AnswerParser {
  return new AnswerParser(answerFormat(of, settings), { tools: settings.tools, reasoning });
}

/** The tokens of an answer: those before the first token that ends a message of the model. */
function answerTokens({ tokens, model }: Conversation, { start }: AnswerPlace): readonly number[] {
  const ends = new Set(model.config.eosTokens);
  const answer = tokens.slice(start);
  const end = answer.findIndex((token) => ends.has(token));
  return end < 0 ? answer : answer.slice(0, end);
}

/** Whether a token of the model ended the answer, so that tokens after it belong to no message. */
export function answerEnded(of: Conversation, place: AnswerPlace): boolean {
  return place.start + answerTokens(of, place).length < of.tokens.length;
}

/** The text of an answer's tokens. */
export function answerText(of: Conversation, place: AnswerPlace): string {
  return of.model.text.tokenizer.decode(answerTokens(of, place));
}

/** {@link answerText} without an incomplete character at the end, which the next token may complete. */
export function openText(of: Conversation, place: AnswerPlace): string {
  const detokenizer = of.model.text.tokenizer.detokenizer();
  return answerTokens(of, place).map((token) => detokenizer.push(token)).join("");
}

/** The answer as a message; undefined if none of its tokens was generated, or none was asked for. */
export function answerMessage(of: Conversation, dialogue: Dialogue): AnswerMessage | undefined {
  const { answer } = dialogue;
  if (answer === undefined || of.tokens.length === answer.start) return undefined;
  const parser = answerParser(of, dialogue, answer);
  const pieces = [...parser.push(of.cutAnswer ?? answerText(of, answer)), ...parser.end()];
  return frozen(messageOf(pieces, parser.format.reasoning !== undefined));
}

/** All messages, the answer included. */
export function allMessages(of: Conversation, dialogue: Dialogue): readonly ChatMessage[] {
  const answer = answerMessage(of, dialogue);
  return answer === undefined ? dialogue.messages : Object.freeze([...dialogue.messages, answer]);
}

/** The dialogue of a session. */
export function dialogueOf(op: string, { dialogue }: Conversation): Dialogue {
  if (dialogue !== undefined) return dialogue;
  const message = "this session's tokens are not those of messages: tokens were appended or generated outside of an answer. Begin a new session with all messages";
  throw new GatedDeltaError("state", { op, message });
}

/** Freezes a JSON value and everything in it, at any depth. */
export function frozen<Value>(value: Value): Value {
  const left: unknown[] = [value];
  while (left.length > 0) {
    const one = left.pop();
    if (typeof one !== "object" || one === null || Object.isFrozen(one)) continue;
    for (const member of Object.values(Object.freeze(one))) left.push(member);
  }
  return value;
}
