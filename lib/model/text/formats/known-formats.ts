/** The formats of released models, found by the text of their chat templates. */
import type { AnswerFormat, Blank } from "./answer-format.ts";

const answer = "<|im_start|>assistant\n";
const reasoning = { begin: "<think>", end: "</think>" };
const call = { begin: "<tool_call>", end: "</tool_call>" };
const newlines: Blank = { characters: "newlines", beforeCall: "one", atEnd: false };
const trimmed: Blank = { characters: "whitespace", beforeCall: "all", atEnd: true };

/** An answer is text and nothing else. */
const plain: AnswerFormat = { name: "plain", blank: newlines };

/**
 * The format of answers that a chat template expects.
 *
 * @param template the template's source.
 */
export function formatOf(template: string): AnswerFormat {
  const thinks = template.includes(reasoning.end) ? { reasoning } : {};
  const begins = template.includes("<|im_start|>") ? { answer } : {};
  if (template.includes("<function=") && template.includes("<parameter=")) {
    return Object.freeze({ name: "qwen-xml", ...begins, ...thinks, toolCall: { ...call, syntax: "xml" as const }, blank: trimmed });
  }
  if (template.includes(call.begin)) return Object.freeze({ name: "qwen-json", ...begins, ...thinks, toolCall: { ...call, syntax: "json" as const }, blank: newlines });
  if (template.includes("<function_calls>")) {
    const toolCall = { begin: "<function_calls>", end: "</function_calls>", syntax: "python" as const };
    return Object.freeze({ name: "olmo", ...begins, ...thinks, toolCall, blank: newlines });
  }
  return Object.freeze({ ...plain, ...begins, ...thinks });
}

/**
 * Whether a rendered conversation ends inside thoughts, so that the answer begins with them and not with a tag.
 *
 * @param prompt the rendered text, or as much of its end as holds the beginning of the answer.
 */
export function opensReasoning(format: AnswerFormat, prompt: string): boolean {
  if (format.reasoning === undefined) return false;
  const { begin, end } = format.reasoning;
  const from = format.answer === undefined ? 0 : prompt.lastIndexOf(format.answer) + 1;
  const opened = prompt.lastIndexOf(begin);
  return opened >= from && prompt.lastIndexOf(end) < opened;
}
