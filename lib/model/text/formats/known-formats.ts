/** The formats of released models, found by the text of their chat templates. */
import type { AnswerFormat } from "./answer-format.ts";

const chatMl = { answer: "<|im_start|>assistant\n" };
const thoughts = { reasoning: Object.freeze({ begin: "<think>", end: "</think>" }) };
const toolCall = { begin: "<tool_call>", end: "</tool_call>" };

/** The format of answers that are only text. */
const plain: AnswerFormat = { name: "plain", blank: { characters: "newlines", beforeCall: "none", atEnds: false } };

/** The known formats. A template has the first one whose texts all occur in it. */
const known: readonly { readonly has: readonly string[]; readonly format: AnswerFormat }[] = [
  {
    // Qwen3.5, 3.6 and 3.8: the template trims every content.
    has: ["<function=", "<parameter=", "<think>"],
    format: { name: "qwen3.5", ...chatMl, ...thoughts, toolCall: { ...toolCall, syntax: "xml" }, blank: { characters: "whitespace", beforeCall: "all", atEnds: true } },
  },
  {
    // Qwen3-Coder: it trims content before calls.
    has: ["<function=", "<parameter="],
    format: { name: "qwen3-coder", ...chatMl, toolCall: { ...toolCall, syntax: "xml" }, blank: { characters: "whitespace", beforeCall: "all", atEnds: false } },
  },
  {
    // Qwen3 and Qwen3-Next Thinking: a line end comes before calls.
    has: ["<tool_call>", "<think>"],
    format: { name: "qwen3", ...chatMl, ...thoughts, toolCall: { ...toolCall, syntax: "json" }, blank: { characters: "newlines", beforeCall: "one", atEnds: false } },
  },
  {
    // Qwen3 Instruct and Qwen3-Next Instruct.
    has: ["<tool_call>"],
    format: { name: "qwen3-instruct", ...chatMl, toolCall: { ...toolCall, syntax: "json" }, blank: { characters: "newlines", beforeCall: "one", atEnds: false } },
  },
  {
    // OLMo 3 and OLMo hybrid: content and calls stand next to each other.
    has: ["<function_calls>", "<think>"],
    format: { name: "olmo-think", ...chatMl, ...thoughts, toolCall: { begin: "<function_calls>", end: "</function_calls>", syntax: "python" }, blank: { characters: "newlines", beforeCall: "none", atEnds: false } },
  },
  {
    has: ["<function_calls>"],
    format: { name: "olmo", ...chatMl, toolCall: { begin: "<function_calls>", end: "</function_calls>", syntax: "python" }, blank: { characters: "newlines", beforeCall: "none", atEnds: false } },
  },
  { has: ["<think>", "<|im_start|>"], format: { ...plain, name: "thoughts", ...chatMl, ...thoughts } },
  { has: ["<think>"], format: { ...plain, name: "thoughts", ...thoughts } },
  { has: [], format: plain },
];

for (const { format } of known) {
  for (const part of [format, format.blank, format.toolCall]) Object.freeze(part);
}

/**
 * The format of answers that a chat template expects.
 *
 * @param template the template's source.
 */
export function formatOf(template: string): AnswerFormat {
  return known.find(({ has }) => has.every((text) => template.includes(text)))!.format;
}

/**
 * Whether a rendered conversation ends inside thoughts, so that the answer begins with them and not with a tag.
 *
 * @param prompt the rendered text, or as much of its end as holds the beginning of the answer.
 */
export function opensReasoning({ reasoning, answer }: AnswerFormat, prompt: string): boolean {
  if (reasoning === undefined) return false;
  // A user's text may also have these tags, but not after the beginning of the answer.
  const begins = answer === undefined ? 0 : Math.max(0, prompt.lastIndexOf(answer));
  const opened = prompt.lastIndexOf(reasoning.begin);
  return opened >= begins && prompt.lastIndexOf(reasoning.end) < opened;
}
