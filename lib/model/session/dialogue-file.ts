/** A session's messages as JSON text in its file. */
import { invalid, asInteger } from "../../arguments/checks.ts";
import { membersOf } from "../../arguments/members.ts";
import { checkOptions } from "../../arguments/options.ts";
import { readMessages } from "../text/chat-messages.ts";
import { templateSource } from "../text/chat-template.ts";
import { parseWithDigits, stringifyWithDigits } from "../text/json-digits.ts";
import { turnOptions } from "../text/text-schemas.ts";
import type { LanguageModel } from "../language-model.ts";
import { frozen } from "./dialogue.ts";
import type { AnswerPlace, ChatSettings, Dialogue } from "./dialogue.ts";

/** Messages and the answer to them. */
export interface StoredDialogue {
  readonly dialogue: Dialogue;
  /** The answer's text, if it ended before its tokens' text. */
  readonly cutAnswer: string | undefined;
}

/** Names and order of the members in a file. */
interface Members {
  readonly messages: unknown;
  readonly settings: unknown;
  readonly answer: unknown;
  readonly cutAnswer: unknown;
}

/** The text of a dialogue. */
export function dialogueText({ dialogue: { messages, settings, answer }, cutAnswer }: StoredDialogue): string {
  return stringifyWithDigits({ messages, settings, answer, cutAnswer } satisfies Members);
}

/**
 * Reads the text of a dialogue. As always, its messages are compared with the session's tokens when the conversation
 * continues.
 *
 * @param tokens how many tokens the session has.
 * @throws {GatedDeltaError} for a text that no session can have.
 */
export function readDialogue(op: string, model: LanguageModel, text: string, tokens: number): StoredDialogue {
  const known: readonly (keyof Members)[] = ["messages", "settings", "answer", "cutAnswer"];
  const { messages, settings: given, answer, cutAnswer } = membersOf(op, parseWithDigits(text) as Members, known, { argument: "dialogue" });
  const { addGenerationPrompt: _, ...settings } = checkOptions(turnOptions, op, given ?? {});
  const chosen = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)) as ChatSettings;
  const empty = Array.isArray(messages) && messages.length === 0;
  // A session without messages needs no template.
  const source = empty && answer === undefined ? "" : templateSource(model.text.template, chosen.template ?? "default");
  if (source === undefined) throw invalid(op, "template", model.text.template.names.join(" | "), chosen.template);
  const copies = readMessages(op, messages, source).value as Dialogue["messages"];
  const place = answer === undefined ? undefined : readPlace(op, answer, tokens);
  if (cutAnswer !== undefined && (typeof cutAnswer !== "string" || place === undefined)) throw invalid(op, "cutAnswer", "the text of an answer", cutAnswer);
  return { dialogue: frozen({ messages: copies, settings: chosen, answer: place }), cutAnswer };
}

function readPlace(op: string, value: unknown, tokens: number): AnswerPlace {
  const { start, reasoning } = membersOf(op, value as AnswerPlace, ["start", "reasoning"], { argument: "answer" });
  if (reasoning !== "open" && reasoning !== "closed") throw invalid(op, "answer.reasoning", '"open" | "closed"', reasoning);
  return { start: asInteger(op, "answer.start", start, 0, tokens), reasoning };
}
