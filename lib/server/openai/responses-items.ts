/** The items of `POST /v1/responses` as messages in the form that chat templates read. */
import type { ChatMessage } from "../../model/text/chat-messages.ts";
import { Problem, unsupported } from "../problem.ts";
import { argumentsOf, contentText } from "./messages.ts";
import type { ResponsesBody } from "./responses-schema.ts";
import { seenName } from "./responses-tools.ts";

type Item = Exclude<ResponsesBody["input"], string>[number];

/** An answer of the conversation, whose thoughts, text and calls are separate items. */
interface Answer {
  content: string;
  reasoning: string | undefined;
  readonly calls: object[];
}

/** Thoughts in the form in which clients give them back to a server that does not store them. Not secret: the client also has the text. */
export const sealed = (thoughts: string): string => Buffer.from(thoughts, "utf8").toString("base64");
const opened = (text: string): string => Buffer.from(text, "base64").toString("utf8");

/**
 * The messages of a body.
 *
 * @throws {Problem} for content that the model can't read.
 */
export function messagesOfItems({ input, instructions }: Pick<ResponsesBody, "input" | "instructions">): ChatMessage[] {
  const messages: ChatMessage[] = typeof instructions === "string" && instructions !== "" ? [{ role: "system", content: instructions }] : [];
  if (typeof input === "string") return [...messages, { role: "user", content: input }];
  const names = new Map<string, string>();
  let answer: Answer | undefined;
  const flush = (): void => {
    if (answer === undefined) return;
    const { content, reasoning, calls } = answer;
    messages.push({ role: "assistant", content, ...(reasoning === undefined ? {} : { reasoning_content: reasoning }), ...(calls.length > 0 ? { tool_calls: calls } : {}) });
    answer = undefined;
  };
  for (const [i, item] of input.entries()) {
    const at = `input[${i}]`;
    const type = item.type ?? "message";
    if (type === "reasoning" || type === "function_call" || type === "custom_tool_call" || (type === "message" && item.role === "assistant")) {
      if (type === "reasoning" && answer !== undefined) flush(); // thoughts begin an answer
      answer ??= { content: "", reasoning: undefined, calls: [] };
      addTo(answer, type, item, at, names);
      continue;
    }
    flush();
    messages.push(otherMessage(type, item, at, names));
  }
  flush();
  return messages;
}

function addTo(answer: Answer, type: "reasoning" | "function_call" | "custom_tool_call" | "message", item: Item, at: string, names: Map<string, string>): void {
  const { call_id: id, name, content, encrypted_content: seal } = item;
  if (type === "message") answer.content += contentText(`${at}.content`, content);
  else if (type === "reasoning") {
    const text = Array.isArray(content) ? content.map((part) => (typeof part["text"] === "string" ? part["text"] : "")).join("") : "";
    answer.reasoning = text === "" && typeof seal === "string" ? opened(seal) : text;
  } else {
    if (typeof id !== "string" || typeof name !== "string") throw new Problem("invalid", `${at}: expected a call with call_id and name`, { member: at });
    const seen = seenName(name, item.namespace);
    names.set(id, seen);
    const given = type === "custom_tool_call" ? { input: item.input ?? "" } : argumentsOf(`${at}.arguments`, item.arguments ?? "");
    answer.calls.push({ type: "function", id, function: { name: seen, arguments: given } });
  }
}

function otherMessage(type: string, { role, content, call_id: id, output }: Item, at: string, names: ReadonlyMap<string, string>): ChatMessage {
  if (type === "function_call_output" || type === "custom_tool_call_output") {
    if (typeof id !== "string") throw new Problem("invalid", `${at}.call_id: expected a text`, { member: `${at}.call_id` });
    const name = names.get(id);
    return { role: "tool", content: contentText(`${at}.output`, output), tool_call_id: id, ...(name === undefined ? {} : { name }) };
  }
  if (type === "item_reference") throw unsupported(`${at}.type`, "responses are not kept: send the items themselves, as clients do with store: false");
  if (type !== "message") throw unsupported(`${at}.type`, `expected "message", "reasoning", or a call of a function or custom tool or its output, got ${JSON.stringify(type)}`);
  if (role === undefined || role === null) throw new Problem("invalid", `${at}.role: expected a role, got nothing`, { member: `${at}.role` });
  return { role: role === "developer" ? "system" : role, content: contentText(`${at}.content`, content) };
}
