/** Random answers as messages, such as a model may write: with thoughts, text and calls, whose values have types in their schema. */
import type { ChatMessage } from "../../lib/model/text/chat-template.ts";
import type { Random } from "../support/random.ts";

const words = ["sunny", "Zürich", "東京", "😀", "it's", '"so"', "a\\b", "{x}", "<b>", "1.0", "null", "True", "line\nend", "a\n\nb", "tab\tbed", "</p>", "<parameter", "`code`", "&"];

/** A conversation, the answer to it, and the template's other inputs. */
export interface MadeAnswer {
  readonly messages: readonly ChatMessage[];
  readonly answer: ChatMessage;
  readonly tools: readonly object[];
  readonly variables: Readonly<Record<string, unknown>>;
}

const types: Readonly<Record<string, object>> = {
  text: { type: "string" }, count: { type: "integer" }, ratio: { type: "number" }, flag: { type: "boolean" }, list: { type: "array" }, map: { type: "object" }, maybe: { anyOf: [{ type: "integer" }, { type: "null" }] },
};
const tools = [
  { type: "function", function: { name: "use", parameters: { type: "object", properties: types, required: [] } } },
  { type: "function", function: { name: "other-tool", parameters: { type: "object", properties: { text: { type: "string" } } } } },
];

/** @param thinks whether the model's answers contain thoughts. */
export function makeAnswer(random: Random, thinks: boolean): MadeAnswer {
  const prose = (): string => Array.from({ length: 1 + random.below(5) }, () => random.pick(words)).join(random.pick([" ", "", ", "]));
  const any = (depth: number): unknown =>
    random.pick<() => unknown>([prose, () => random.below(100), () => random.uniform(-2, 2), () => true, () => null, () => (depth > 2 ? [] : [any(depth + 1), any(depth + 1)]), () => (depth > 2 ? {} : { [prose()]: any(depth + 1) })])();
  const values: Readonly<Record<string, () => unknown>> = {
    text: () => random.pick(["", "\n", "\n\na\n", prose(), prose()]), count: () => random.below(1e6) - 5e5, ratio: () => random.uniform(-1e3, 1e3), flag: () => random.below(2) === 0,
    list: () => [any(0)], map: () => ({ [prose()]: any(0), more: null }), maybe: () => random.pick([null, 7]),
  };
  const call = (): object => {
    const keys = Object.keys(values);
    const given = random.below(4) === 0 ? { text: prose() } : Object.fromEntries(random.distinct(random.below(4), keys.length).map((i) => [keys[i]!, values[keys[i]!]!()]));
    return { type: "function", function: { name: random.pick(["use", "use", "other-tool"]), arguments: given } };
  };
  const calls = Array.from({ length: random.below(4) }, call);
  const answer: ChatMessage = {
    role: "assistant",
    content: random.below(3) === 0 ? "" : prose(),
    ...(thinks ? { reasoning_content: random.below(4) === 0 ? "" : prose() } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  const messages = [{ role: "user", content: prose() }];
  return { messages, answer, tools, variables: { enable_thinking: true } };
}
