/** The next turn of a conversation: the whole text as the template writes it, compared with the session's tokens. */
import { invalid } from "../../arguments/checks.ts";
import { checkOptions } from "../../arguments/options.ts";
import { reading } from "../../arguments/reading.ts";
import { BoundsError } from "../../errors.ts";
import { opensReasoning } from "../text/formats/known-formats.ts";
import { plain, readMessages } from "../text/chat-messages.ts";
import type { ChatMessage } from "../text/chat-messages.ts";
import { templateSource } from "../text/chat-template.ts";
import type { ChatOptions } from "../text/chat-template.ts";
import { turnOptions } from "../text/text-schemas.ts";
import { tokenBytes } from "../text/tokenizer.ts";
import type { Conversation } from "./conversation.ts";
import { allMessages, answerFormat, dialogueOf, frozen } from "./dialogue.ts";
import type { ChatSettings } from "./dialogue.ts";
import { plainEnd } from "./generated-text.ts";
import type { Turn } from "./session-options.ts";
import { spliceOf } from "./splice.ts";

/** Messages and options of a turn, copied from the caller's. */
export interface GivenTurn {
  readonly messages: readonly ChatMessage[];
  readonly settings: ChatSettings;
  readonly addGenerationPrompt: boolean;
}

/**
 * Reads the caller's messages and options, which can run code of the caller.
 *
 * @throws {GatedDeltaError} as {@link Session.chat}.
 */
export function readTurn(op: string, of: Conversation, given: readonly ChatMessage[], options: ChatOptions): GivenTurn {
  const { addGenerationPrompt, ...changes } = checkOptions(turnOptions, op, options);
  const { template } = of.model.text;
  const { settings: before } = dialogueOf(op, of);
  const { tools, variables, ...names } = { ...before, ...Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) } as ChatSettings;
  const settings = reading(op, "options", () => ({
    ...names,
    ...(tools === undefined ? {} : { tools: plain(tools).value }),
    ...(variables === undefined ? {} : { variables: plain(variables).value }),
  }));
  const source = templateSource(template, settings.template ?? "default");
  if (source === undefined) throw invalid(op, "template", template.names.map((name) => JSON.stringify(name)).join(" | "), settings.template);
  const messages = readMessages(op, given, source).value as readonly ChatMessage[];
  return { messages: frozen(messages), settings: frozen(settings), addGenerationPrompt };
}

/**
 * Adds a turn to a session, which keeps its tokens as far as they match the conversation's text.
 *
 * @throws {GatedDeltaError} as {@link Session.chat}. The session is unchanged then.
 */
export function takeTurn(op: string, of: Conversation, { messages: given, settings, addGenerationPrompt }: GivenTurn): Turn {
  const dialogue = dialogueOf(op, of);
  const { model, tokens } = of;
  const { template, tokenizer } = model.text;
  const before = allMessages(of, dialogue);
  if (before.length > dialogue.messages.length && given[0]?.role === "assistant") {
    throw invalid(op, "messages[0].role", 'a message that follows the session\'s own answer, such as "user" | "tool"', "assistant");
  }
  const messages = Object.freeze([...before, ...given]);
  const pieces = template.pieces(messages, { ...settings, addGenerationPrompt });
  const wanted = tokenizer.encode(pieces);
  const { maxPositions } = model.config;
  if (wanted.length > maxPositions) {
    throw new BoundsError({ op, argument: "messages", expected: `a conversation of at most the model's ${maxPositions} positions`, received: `${wanted.length} tokens` });
  }
  const { kept, covered } = spliceOf(tokens, wanted, tokenBytes(tokenizer), (position) => of.generated.has(position));
  const added = wanted.slice(covered);
  if (added.length > maxPositions - kept) {
    const expected = `at most ${maxPositions - kept} tokens after the ${kept} that the session keeps`;
    throw new BoundsError({ op, argument: "messages", expected, received: `${added.length}` });
  }
  const opens = opensReasoning(answerFormat(of, settings), pieces.map(({ text }) => text).join(""));
  const droppedTokens = tokens.length - kept;
  const again = of.rewind(kept);
  of.add(added);
  const answer = addGenerationPrompt ? Object.freeze({ start: tokens.length, reasoning: opens ? "open" : "closed" } as const) : undefined;
  of.dialogue = Object.freeze({ messages, settings, answer });
  of.cutAnswer = undefined;
  of.textEnd = plainEnd;
  const rereadTokens = again === 0 ? 0 : Math.max(0, again - of.knownInCache);
  return Object.freeze({ keptTokens: kept, droppedTokens, addedTokens: added.length, rereadTokens });
}
