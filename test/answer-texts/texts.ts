/** Random answers: as models write them, with mistakes, and as pieces of everything in any order. */
import { formats } from "./formats.ts";
import type { Random } from "../support/random.ts";

/** An answer, and the information that the parser gets about it. */
export interface AnswerText {
  readonly format: string;
  readonly reasoning: "open" | "closed";
  readonly tools: readonly object[];
  readonly text: string;
}

/** A tool with each kind of parameter. */
export const tools: readonly object[] = [
  {
    type: "function",
    function: {
      name: "search",
      parameters: {
        type: "object",
        properties: {
          query: { type: "string" }, limit: { type: "integer" }, exact: { type: "boolean" }, weight: { type: "number" }, tags: { type: "array", items: { type: "string" } },
          filter: { anyOf: [{ type: "object" }, { type: "null" }] }, when: { $ref: "#/$defs/When" }, any: {}, mode: { enum: ["fast", "1", null] },
        },
        required: ["query"],
        $defs: { When: { type: ["string", "null"] } },
      },
    },
  },
  { name: "write_file", parameters: { type: "object", properties: { path: { type: "string" }, text: { type: "string" } }, required: ["path", "text"] } },
  { type: "function", function: { name: "now" } },
];

const words = ["the", " a ", "weather", "Zürich", "東京", "😀", "\ud83d", "é", "<", ">", "</", "{", "}", "\"", "'", "\\", "\n", "\n\n", " ", "\t", "\u00a0", "\u2028", "0", "-1", "1.5e3", "null", "True", ",", ":", "[", "]", "(", ")", "=", "`", "\0"];
const tags = [
  "<think>", "</think>", "<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>", "<function_calls>", "</function_calls>", "<function=search>", "<function=now>",
  "<parameter=query>", "<parameter=limit>", "<parameter=", "search(", "now()", '{"name": "search", "arguments": {', '"query": "', '"}}', "</tool", "</para", "<tool_call>\n{\"name\": \"now\"}\n</tool_call>",
];

const some = (random: Random, most: number, make: () => string): string => Array.from({ length: random.below(most + 1) }, make).join("");
const prose = (random: Random): string => some(random, 8, () => random.pick(words));

/** The n-th answer of a seed's {@link Random}. */
export function makeText(random: Random): AnswerText {
  const format = random.pick(Object.keys(formats));
  const kind = random.below(8);
  let text = kind === 0 ? some(random, 40, () => random.pick(random.below(2) === 0 ? words : tags)) : kind === 1 ? some(random, 30, () => random.pick(tags)) : answer(random);
  if (kind >= 4) for (let i = 1 + random.below(4); i > 0; i--) text = mutated(random, text);
  return { format, reasoning: random.pick(["open", "closed"]), tools: random.pick([tools, tools, []]), text };
}

/** An answer without a mistake. */
function answer(random: Random): string {
  const calls = Array.from({ length: random.below(4) }, () => call(random));
  const thoughts = random.below(3) === 0 ? "" : `${random.pick(["", "<think>\n"])}${prose(random)}${random.below(6) === 0 ? call(random) : ""}\n</think>\n\n`;
  return `${thoughts}${prose(random)}${random.pick(["", "\n", "\n\n"])}${calls.join(random.pick(["", "\n"]))}${random.below(4) === 0 ? prose(random) : ""}`;
}

function call(random: Random): string {
  const name = random.pick(["search", "search", "write_file", "now", "other tool"]);
  const keys = ["query", "limit", "exact", "weight", "tags", "filter", "when", "any", "mode", "path", "text", "more"];
  const members = random.distinct(random.below(4), keys.length).map((i) => [keys[i]!, value(random)] as const);
  const json = (one: unknown) => JSON.stringify(one);
  switch (random.below(4)) {
    case 0:
      return `<function_calls>${name.replace(" ", "_")}(${members.map(([key, one]) => `${key}=${json(one)}`).join(", ")})</function_calls>`;
    case 1:
      return `<tool_call>\n${json({ name, arguments: Object.fromEntries(members) })}\n</tool_call>`;
    default: {
      const text = members.map(([key, one]) => `<parameter=${key}>\n${typeof one === "string" ? one : json(one)}\n</parameter>\n`).join("");
      const inner = `<function=${name}>\n${text}</function>\n`;
      return random.below(6) === 0 ? inner : `<tool_call>\n${inner}</tool_call>`;
    }
  }
}

function value(random: Random): unknown {
  return random.pick<() => unknown>([
    () => prose(random), () => prose(random), () => random.below(1000) - 500, () => random.uniform(-5, 5), () => true, () => false, () => null, () => [prose(random), 1, [null]],
    () => ({ [prose(random)]: random.below(9), nested: { list: [true, prose(random)] } }), () => random.pick(tags), () => 12345678901234567000,
  ])();
}

/** A text with one mistake. */
function mutated(random: Random, text: string): string {
  const [from, length] = [random.below(text.length + 1), random.below(Math.min(40, text.length + 1))];
  const [before, part, after] = [text.slice(0, from), text.slice(from, from + length), text.slice(from + length)];
  switch (random.below(7)) {
    case 0:
      return before + after; // a part is missing
    case 1:
      return before + part + part + after; // a part comes twice
    case 2:
      return before; // the text ends early
    case 3:
      return before + random.pick(tags) + part + after;
    case 4:
      return before + random.pick(words) + after;
    case 5:
      return before + "\n".repeat(random.below(30)) + part + after;
    default:
      return after + before; // parts change places
  }
}
