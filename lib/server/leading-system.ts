import type { ChatMessage } from "../model/text/chat-messages.ts";

/** Joins the system's messages at the beginning: most chat templates take one, and clients send several. */
export function leadingSystem(messages: readonly ChatMessage[]): ChatMessage[] {
  const count = messages.findIndex(({ role }) => role !== "system");
  const leading = messages.slice(0, count < 0 ? messages.length : count);
  if (leading.length < 2) return [...messages];
  return [{ role: "system", content: leading.map(({ content }) => content).join("\n\n") }, ...messages.slice(leading.length)];
}
