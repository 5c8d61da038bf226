/** Random conversations for chat templates: the n-th of a seed follows from the two numbers alone. */
import type { ChatMessage, ChatOptions } from "../../lib/model/text/chat-template.ts";
import { Random } from "../support/random.ts";
import { nthSeed } from "../support/schedules.ts";

/** A conversation and the options of its rendering, all of it JSON. */
export interface Conversation {
  readonly messages: readonly ChatMessage[];
  readonly options: Pick<ChatOptions, "addGenerationPrompt" | "tools" | "variables">;
}

const words = [
  "the", "weather", "Zürich", "東京", "😀👩‍👩‍👧", "naïve", "العربية", "<b>", "&amp;", "'quoted'", '"double"', "back\\slash", "{brace}", "{{ x }}", "%}", "tab\t", "line\nend", "\n", "\n\n", " ", "\u00a0", "\u2028", "1.0", "None", "null",
  "<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>", "é", "\u007f", "\u0000",
];
const names = ["get_weather", "search", "Ünïcode", "f", "a.b-c"];
const keys = ["city", "limit", "exact", "größe", "a b", "x", "filter", "type", "items", "__proto__x"];

/** The n-th conversation of a seed. */
export function conversationOf(seed: number, n: number): Conversation {
  const random = new Random(nthSeed(seed, n));
  const chance = (of: number): boolean => random.below(of) === 0;
  const some = <T>(most: number, make: () => T): T[] => Array.from({ length: random.below(most + 1) }, make);

  const prose = (): string => (chance(12) ? "" : Array.from({ length: 1 + random.below(6) }, () => random.pick(words)).join(random.pick(["", " "])));
  const number = (): number => random.pick([0, 1, -7, 2 ** 31, 0.1, -2.5, 1e-7, 1.5e300, 123456789012, 3.0000000001, random.uniform(-1e6, 1e6)]);
  const value = (depth: number): unknown => {
    switch (random.below(depth > 2 ? 5 : 7)) {
      case 0:
        return null;
      case 1:
        return chance(2);
      case 2:
        return number();
      case 3:
      case 4:
        return prose();
      case 5:
        return some(3, () => value(depth + 1));
      default:
        return members(3, depth + 1);
    }
  };
  const members = (most: number, depth: number): Record<string, unknown> => Object.fromEntries(some(most, () => [random.pick(keys), value(depth)]));
  /** Many templates refuse content that is not a string. */
  const texts = !chance(4);
  const content = (): unknown => (!texts && chance(3) ? some(3, () => ({ type: "text", text: prose() })) : prose());

  const tool = (): object => {
    const described = {
      name: random.pick(names),
      ...(chance(4) ? {} : { description: prose() }),
      ...(chance(6)
        ? {}
        : {
            parameters: {
              type: "object",
              properties: Object.fromEntries(
                some(3, () => [random.pick(keys), { ...(chance(5) ? {} : { type: random.pick<unknown>(["string", "integer", ["string", "null"]]) }), ...(chance(2) ? { description: prose() } : {}), ...(chance(3) ? { enum: some(3, () => value(3)), default: value(2) } : {}) }]),
              ),
              ...(chance(2) ? { required: some(2, () => random.pick(keys)) } : {}),
              ...(chance(5) ? { additionalProperties: false, $defs: members(2, 1) } : {}),
            },
          }),
      ...(chance(8) ? { strict: true } : {}),
    };
    return chance(5) ? described : { type: "function", function: described };
  };
  const call = (): object => {
    const described = { name: random.pick(names), arguments: members(4, 0) };
    return chance(5) ? described : { id: `call_${random.below(1000)}`, type: "function", function: described };
  };
  const assistant = (): ChatMessage => {
    const calls = chance(2) ? Array.from({ length: 1 + random.below(3) }, call) : [];
    const thinks = random.below(4);
    return {
      role: "assistant",
      content: !texts && chance(8) ? null : chance(5) ? `<think>\n${prose()}\n</think>\n\n${prose()}` : calls.length > 0 && chance(2) ? "" : chance(12) ? content() : prose(),
      ...(thinks === 0 ? { reasoning_content: prose() } : thinks === 1 ? { reasoning_content: `\n${prose()}\n` } : thinks === 2 && chance(4) ? { reasoning_content: null } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : chance(8) ? { tool_calls: chance(2) ? [] : null } : {}),
    };
  };

  const messages: ChatMessage[] = chance(2) ? [{ role: "system", content: chance(6) ? content() : prose() }] : [];
  for (let turns = 1 + random.below(4); turns > 0; turns--) {
    messages.push({ role: "user", content: chance(20) ? `<tool_response>\n${prose()}\n</tool_response>` : content() });
    if (turns === 1 && chance(2)) break;
    messages.push(assistant());
    while (chance(2)) {
      messages.push(...Array.from({ length: 1 + random.below(3) }, () => ({ role: "tool", content: chance(5) ? content() : chance(3) ? JSON.stringify(value(0)) : prose(), ...(chance(3) ? { name: random.pick(names) } : {}) })));
      if (chance(8)) break;
      messages.push(assistant());
    }
  }
  if (chance(40)) messages.push({ role: "system", content: prose() });
  const variables = {
    ...(chance(3) ? { enable_thinking: chance(2) } : {}),
    ...(chance(4) ? { preserve_thinking: chance(2) } : {}),
    ...(chance(5) ? { reasoning_effort: random.pick(["xhigh", "medium", "low", "other"]) } : {}),
    ...(chance(20) ? { add_vision_id: true } : {}),
  };
  return {
    messages,
    options: { addGenerationPrompt: !chance(4), ...(chance(2) ? { tools: chance(10) ? [] : Array.from({ length: 1 + random.below(3) }, tool) } : {}), variables },
  };
}
