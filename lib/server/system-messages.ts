/** System messages, as far as a chat template takes them. */
import type { ChatMessage, ChatTemplate } from "../model/text/chat-template.ts";

/** A conversation's system messages: joined at the beginning, later ones as the template takes them. */
export function withSystem(messages: readonly ChatMessage[], template: ChatTemplate): ChatMessage[] {
  const found = messages.findIndex(({ role }) => role !== "system");
  const count = found < 0 ? messages.length : found;
  const joined = { role: "system", content: messages.slice(0, count).map(({ content }) => content).join("\n\n") };
  const leading = count < 2 ? messages.slice(0, count) : [joined];
  const rest = messages.slice(count);
  if (rest.every(({ role }) => role !== "system") || takesLater(template)) return [...leading, ...rest];
  return [...leading, ...rest.map((message) => (message.role === "system" ? reminder(message) : message))];
}

/** A later system message as a user's message, in the tags that agents themselves use for it. */
function reminder({ content }: ChatMessage): ChatMessage {
  return { role: "user", content: `<system-reminder>\n${content as string}\n</system-reminder>` };
}

/** Whether templates write a system message that is not the first message: many refuse it. */
const takes = new WeakMap<ChatTemplate, boolean>();

function takesLater(template: ChatTemplate): boolean {
  const known = takes.get(template);
  if (known !== undefined) return known;
  const text = "A later message of the system";
  let written = false;
  try {
    written = template.render([{ role: "user", content: "a" }, { role: "assistant", content: "b" }, { role: "system", content: text }, { role: "user", content: "c" }]).includes(text);
  } catch {
    // It does not.
  }
  takes.set(template, written);
  return written;
}
