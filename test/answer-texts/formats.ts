/** The formats of answers under test, found as for a model: by the texts in their templates. */
import type { AnswerFormat } from "../../lib/model/text/formats/answer-format.ts";
import { formatOf } from "../../lib/model/text/formats/known-formats.ts";

const xml = "<function=NAME>\n<parameter=KEY>";
export const formats: Readonly<Record<string, AnswerFormat>> = Object.fromEntries(
  [
    `<|im_start|> ${xml} <think>`, `<|im_start|> ${xml}`, "<|im_start|> <tool_call> <think>", "<|im_start|> <tool_call>",
    "<|im_start|> <function_calls> <think>", "<|im_start|> <function_calls>", "<think>", "{{ messages }}",
  ].map((text) => {
    const format = formatOf(text);
    return [format.name, format];
  }),
);
