/** Messages of `POST /v1/chat/completions` in the form that chat templates read. */
import { parseWithDigits } from "../../model/text/json-digits.ts";
import { isRecord } from "../../checkpoint/json.ts";
import { describe } from "../../errors.ts";
import type { ChatMessage } from "../../model/text/chat-messages.ts";
import { excessOf, mostNested } from "../json-nesting.ts";
import { Problem, unsupported } from "../problem.ts";
import type { ChatBody } from "./chat-schema.ts";

type Message = ChatBody["messages"][number];

/** Types of content parts that are text, each with the member that has the text. */
const textMembers: Readonly<Record<string, string>> = { text: "text", refusal: "refusal", input_text: "text", output_text: "text" };

/** A part of a message's content. */
export type Part = { readonly type: string; readonly [key: string]: unknown };

/**
 * The text of a message's content.
 *
 * @throws {Problem} for images, sounds, files and other parts, and for content that is neither text nor parts.
 */
export function contentText(member: string, content: unknown): string {
  if (content === undefined || content === null) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw new Problem("invalid", `${member}: expected a text, or an array of parts of one, got ${describe(content)}`, { member });
  return content.map((part: unknown, i) => partText(`${member}[${i}]`, part)).join("");
}

/**
 * The text of one part.
 *
 * @throws {Problem} as {@link contentText}.
 */
export function partText(member: string, part: unknown): string {
  if (!isRecord(part) || typeof part["type"] !== "string") throw new Problem("invalid", `${member}: expected a part with a type, got ${describe(part)}`, { member });
  const { type } = part as Part;
  const name = Object.hasOwn(textMembers, type) ? textMembers[type]! : undefined;
  if (name === undefined) throw unsupported(`${member}.type`, `the model reads text alone, not ${JSON.stringify(type)}`);
  const text = part[name];
  if (typeof text === "string") return text;
  throw new Problem("invalid", `${member}.${name}: expected a text`, { member: `${member}.${name}` });
}

/**
 * A call's arguments as an object.
 *
 * @throws {Problem} for anything but an object or the JSON of one.
 */
export function argumentsOf(member: string, given: unknown): Readonly<Record<string, unknown>> {
  if (typeof given === "string" && excessOf(given) !== undefined) throw new Problem("invalid", `${member}: expected an object as JSON that nests at most ${mostNested} deep, got one that nests deeper`, { member });
  let value = given;
  try {
    if (typeof given === "string") value = given.trim() === "" ? {} : parseWithDigits(given);
  } catch {
    // Refused below.
  }
  if (isRecord(value)) return value;
  throw new Problem("invalid", `${member}: expected an object as JSON`, { member });
}

/**
 * The messages of a body.
 *
 * @throws {Problem} for content that the model can't read.
 */
export function chatMessages(messages: readonly Message[]): ChatMessage[] {
  const names = new Map<string, string>();
  return messages.map((message, i) => messageOf(message, `messages[${i}]`, names));
}

/** @param names the tools that were called, by the calls' identifiers. */
function messageOf(message: Message, member: string, names: Map<string, string>): ChatMessage {
  const { role, tool_calls: calls, tool_call_id: id } = message;
  if (message.audio !== undefined && message.audio !== null) throw unsupported(`${member}.audio`, "the model reads text alone");
  if (message.function_call !== undefined && message.function_call !== null) throw unsupported(`${member}.function_call`, "use tool_calls");
  const content = contentText(`${member}.content`, message.content);
  if (role === "developer") return { role: "system", content };
  if (role === "tool") {
    const name = message.name ?? names.get(id ?? "");
    return { role, content, ...(name === undefined ? {} : { name }), ...(typeof id === "string" ? { tool_call_id: id } : {}) };
  }
  if (role !== "assistant") return { role, content };
  const thoughts = message.reasoning_content ?? message.reasoning;
  const called = (calls ?? []).map(({ id: callId, type, function: fn }, i) => {
    const at = `${member}.tool_calls[${i}]`;
    if (fn === undefined) throw unsupported(`${at}.type`, `expected "function", got ${JSON.stringify(type ?? null)}`);
    if (typeof callId === "string") names.set(callId, fn.name);
    return { type: "function", ...(typeof callId === "string" ? { id: callId } : {}), function: { name: fn.name, arguments: argumentsOf(`${at}.function.arguments`, fn.arguments) } };
  });
  const text = content === "" && typeof message.refusal === "string" ? message.refusal : content;
  return { role, content: text, ...(typeof thoughts === "string" ? { reasoning_content: thoughts } : {}), ...(called.length > 0 ? { tool_calls: called } : {}) };
}
