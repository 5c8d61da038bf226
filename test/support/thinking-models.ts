/** Models with random weights whose chat templates have thoughts and calls. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tinyModel } from "../../lib/model.ts";

/** How a model writes calls. */
export type CallsOf = "json" | "xml";

/** The end of a prompt: inside thoughts unless `enable_thinking` is false. */
const beginning = `{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\\n' }}
  {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% else %}{{- '<think>\\n' }}{% endif %}
{%- endif %}`;

const messages = `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}`;

const calls: Readonly<Record<CallsOf, string>> = {
  json: `{%- if tools %}{{- '<|im_start|>system\\nCall <tool_call>\\n{"name": …, "arguments": {…}}\\n</tool_call><|im_end|>\\n' }}{% endif %}`,
  xml: `{%- if tools %}{{- '<|im_start|>system\\nCall <tool_call>\\n<function=NAME>\\n<parameter=KEY>\\nVALUE\\n</parameter>\\n</function>\\n</tool_call><|im_end|>\\n' }}{% endif %}`,
};

const tags = ["<think>", "</think>", "<tool_call>", "</tool_call>"];

/**
 * Writes a model.
 *
 * @param tokens whether each tag is a single token.
 */
export function writeThinkingModel(folder: string, style: CallsOf, tokens: boolean): string {
  mkdirSync(folder, { recursive: true });
  cpSync(tinyModel, folder, { recursive: true });
  writeFileSync(join(folder, "chat_template.jinja"), calls[style] + messages + beginning);
  const path = join(folder, "tokenizer.json");
  const tokenizer = JSON.parse(readFileSync(path, "utf8"));
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: false };
  if (tokens) for (const [i, content] of tags.entries()) tokenizer.added_tokens.push({ id: 500 + i, content, ...flags });
  writeFileSync(path, JSON.stringify(tokenizer));
  return folder;
}
