/** Checks the messages of a conversation before a template sees them. */
import { invalid, largestIndex } from "../../arguments/checks.ts";
import { asArray, reading } from "../../arguments/reading.ts";
import { GatedDeltaError, UnsupportedError, describe } from "../../errors.ts";
import { isRecord } from "../../checkpoint/json.ts";
import { parseWithDigits, stringifyWithDigits } from "./json-digits.ts";
import { mostNested, nestsWithin } from "./nesting.ts";

/** A message of a conversation. A template may read further members, such as `tool_calls`. */
export interface ChatMessage {
  /** The speaker: `system`, `user`, `assistant`, `tool`, or another role that the template names. */
  readonly role: string;
  /** The message's text, or an array of parts `{ type: "text", text }`. Images and other parts are refused. */
  readonly content?: unknown;
  /**
   * Other members that the template knows, such as `tool_calls`, whose `arguments` are objects: text would be written as text. Pass an
   * integer beyond 2⁵³ as a bigint.
   */
  readonly [key: string]: unknown;
}

/** A copy of the caller's values as JSON values, and the number of characters in them. */
export interface Plain<Value> {
  readonly value: Value;
  readonly characters: number;
}

const roles = ["system", "user", "assistant", "tool"];

/**
 * A copy of the messages.
 *
 * @param source the template's source; roles that it names are known.
 * @throws {GatedDeltaError} of code `invalid-argument` for values that are not messages, unknown roles and content of another
 *   type; {@link UnsupportedError} for images and other parts that are not text.
 */
export function readMessages(op: string, messages: unknown, source: string): Plain<readonly unknown[]> {
  const given = asArray(op, "messages", "an array of { role, content }", messages, largestIndex);
  for (const [i, message] of given.entries()) {
    const role: unknown = reading(op, `messages[${i}]`, () => (message as Partial<ChatMessage> | null)?.role);
    if (typeof role !== "string") throw invalid(op, `messages[${i}].role`, "a string", role);
    if (!isKnownRole(role, source)) throw invalid(op, `messages[${i}].role`, roles.map((one) => JSON.stringify(one)).join(" | "), role);
    const keys = reading(op, `messages[${i}]`, () => Object.keys(message as ChatMessage));
    // A message without these probably has a misspelt member, such as `contents`.
    if (!keys.includes("content") && !keys.includes("tool_calls")) {
      throw invalid(op, `messages[${i}].content`, "a text, or parts of one", `a message of ${keys.join(", ")}`);
    }
    for (const key of keys) {
      const argument = `messages[${i}].${key}`;
      const member = reading(op, argument, () => (message as ChatMessage)[key]);
      if (typeof member === "object" && !reading(op, argument, () => nestsWithin(member))) {
        throw new GatedDeltaError("invalid-argument", { op, argument, expected: `a value that nests at most ${mostNested} deep`, received: "one that nests deeper" });
      }
    }
  }
  const copy = reading(op, "messages", () => plain(given));
  for (const [i, message] of copy.value.entries()) checkContent(op, `messages[${i}].content`, (message as ChatMessage).content);
  return copy;
}

/** Whether a role is a common one or named by the template. */
export function isKnownRole(role: string, source: string): boolean {
  return roles.includes(role) || (/^[\w-]{1,64}$/.test(role) && (source.includes(`'${role}'`) || source.includes(`"${role}"`)));
}

function checkContent(op: string, argument: string, content: unknown): void {
  if (content === undefined || content === null || typeof content === "string" || isRecord(content)) return;
  if (!Array.isArray(content)) throw invalid(op, argument, "a text, or parts of one", content);
  for (const [i, part] of content.entries()) {
    if (typeof part === "string") continue;
    const { type = "text", text } = isRecord(part) ? part : { type: undefined, text: undefined };
    if (type === "text" && typeof text === "string") continue;
    const expected = 'a string or { type: "text", text }: the model reads text alone';
    const received = !isRecord(part) ? describe(part) : type === "text" ? `a part of ${Object.keys(part).join(", ")}` : `a part of type ${describe(type)}`;
    throw new UnsupportedError({ op, argument: `${argument}[${i}]`, expected, received });
  }
}

/** A copy made of JSON values and bigints, so that templates see no getters, functions or cycles. */
export function plain<Value>(value: Value): Plain<Value> {
  try {
    const text = JSON.stringify(value);
    return { value: JSON.parse(text), characters: text.length };
  } catch {
    // JSON.stringify refuses bigints. A value that it refuses for another reason is also refused here.
    const text = stringifyWithDigits(value);
    return { value: parseWithDigits(text) as Value, characters: text.length };
  }
}
