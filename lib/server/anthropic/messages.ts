/** Messages of `POST /v1/messages` in the form that chat templates read. */
import type { ChatMessage } from "../../model/text/chat-messages.ts";
import { argumentsOf, contentText, partText } from "../openai/messages.ts";
import type { Part } from "../openai/messages.ts";
import { Problem } from "../problem.ts";
import type { MessagesBody } from "./messages-schema.ts";

type Content = MessagesBody["system"];

/**
 * Begins a part of Claude Code's system prompt that is for Anthropic's accounts and not for the model. The part changes with each
 * request: with it, no request would have a cached beginning.
 */
const billing = "x-anthropic-billing-header:";

/** The system's text, without parts that are not for the model. */
function systemText(system: Content): string {
  if (typeof system === "string") return system.startsWith(billing) ? system.slice(`${system}\n`.indexOf("\n") + 1).trimStart() : system;
  const parts = (system ?? []).map((part, i) => partText(`system[${i}]`, part));
  return parts.filter((text) => !text.startsWith(billing)).join("\n\n");
}

/**
 * The messages of a body.
 *
 * @throws {Problem} for content that the model can't read.
 */
export function messagesOf({ system, messages }: Pick<MessagesBody, "system" | "messages">): ChatMessage[] {
  if (messages.at(-1)!.role === "assistant") {
    const message = "the last message is the assistant's: an answer whose beginning is given is not supported";
    throw new Problem("unsupported", `messages: ${message}`, { member: "messages" });
  }
  const names = new Map<string, string>();
  const text = systemText(system);
  const read = messages.flatMap(({ role, content }, i) => {
    const member = `messages[${i}].content`;
    if (role === "assistant") return [assistantOf(content, member, names)];
    if (role === "system") return [{ role, content: contentText(member, content) }];
    return userOf(content, member, names);
  });
  return text === "" ? read : [{ role: "system", content: text }, ...read];
}

/** A user's message: tool results in it become separate messages. */
function userOf(content: Content, member: string, names: ReadonlyMap<string, string>): ChatMessage[] {
  if (!Array.isArray(content)) return [{ role: "user", content: contentText(member, content) }];
  const messages: ChatMessage[] = [];
  let texts: string[] = [];
  const flush = (): void => {
    if (texts.length > 0) messages.push({ role: "user", content: texts.join("\n\n") });
    texts = [];
  };
  for (const [i, block] of (content as Part[]).entries()) {
    if (block.type !== "tool_result") {
      texts.push(partText(`${member}[${i}]`, block));
      continue;
    }
    flush();
    const { tool_use_id: id, content: result } = block;
    if (typeof id !== "string") throw expectedText(`${member}[${i}].tool_use_id`);
    const name = names.get(id);
    messages.push({ role: "tool", content: contentText(`${member}[${i}].content`, result), tool_call_id: id, ...(name === undefined ? {} : { name }) });
  }
  flush();
  return messages;
}

function assistantOf(content: Content, member: string, names: Map<string, string>): ChatMessage {
  if (!Array.isArray(content)) return { role: "assistant", content: contentText(member, content) };
  let [text, thoughts] = ["", undefined as string | undefined];
  const calls: object[] = [];
  for (const [i, block] of (content as Part[]).entries()) {
    const { type, id, name, input, thinking } = block;
    const at = `${member}[${i}]`;
    if (type === "redacted_thinking") continue; // no thoughts of this model
    if (type === "thinking") {
      if (typeof thinking !== "string") throw expectedText(`${at}.thinking`);
      thoughts = (thoughts ?? "") + thinking;
    } else if (type === "tool_use") {
      if (typeof id !== "string") throw expectedText(`${at}.id`);
      if (typeof name !== "string") throw expectedText(`${at}.name`);
      names.set(id, name);
      calls.push({ type: "function", id, function: { name, arguments: argumentsOf(`${at}.input`, input) } });
    } else text += partText(at, block);
  }
  return { role: "assistant", content: text, ...(thoughts === undefined ? {} : { reasoning_content: thoughts }), ...(calls.length > 0 ? { tool_calls: calls } : {}) };
}

function expectedText(member: string): Problem {
  return new Problem("invalid", `${member}: expected a text`, { member });
}
