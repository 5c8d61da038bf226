/** The SDK's prompts as messages in the form that chat templates read. */
import type { LanguageModelV4FilePart, LanguageModelV4Message, LanguageModelV4Prompt, LanguageModelV4ToolResultPart } from "@ai-sdk/provider";
import { invalid } from "../arguments/checks.ts";
import { isRecord } from "../checkpoint/json.ts";
import { UnsupportedError } from "../errors.ts";
import type { ChatMessage } from "../model/text/chat-messages.ts";
import { parseWithDigits, stringifyWithDigits } from "../model/text/json-digits.ts";

type Assistant = Extract<LanguageModelV4Message, { readonly role: "assistant" }>;

/**
 * The messages of a prompt.
 *
 * @throws {GatedDeltaError} that names the part: `UnsupportedError` for images, sounds, files that are not text, and a provider's calls.
 */
export function messagesOf(op: string, prompt: LanguageModelV4Prompt): ChatMessage[] {
  if (!Array.isArray(prompt)) throw invalid(op, "prompt", "an array of messages", prompt);
  return prompt.flatMap((message, i) => {
    if (!isRecord(message)) throw invalid(op, `prompt[${i}]`, "a message", message);
    const at = `prompt[${i}].content`;
    switch (message.role) {
      case "system":
        return [{ role: "system", content: textOf(op, message.content, at) }];
      case "user":
        return [{ role: "user", content: partsOf(op, message.content, at).map((part, j) => (part.type === "text" ? textOf(op, part.text, `${at}[${j}].text`) : textOfFile(op, part, `${at}[${j}]`))).join("") }];
      case "assistant":
        return [assistantOf(op, message, at)];
      case "tool":
        // Answers to questions whether a provider may run a tool: none runs here.
        return partsOf(op, message.content, at).flatMap((part, j) => (part.type === "tool-result" ? [resultOf(op, part, `${at}[${j}]`)] : []));
      default:
        throw invalid(op, `prompt[${i}].role`, '"system", "user", "assistant" or "tool"', (message as { readonly role: unknown }).role);
    }
  });
}

function textOf(op: string, value: unknown, at: string): string {
  if (typeof value === "string") return value;
  throw invalid(op, at, "a text", value);
}

function partsOf<Part>(op: string, parts: readonly Part[], at: string): readonly Part[] {
  if (!Array.isArray(parts)) throw invalid(op, at, "an array of parts", parts);
  for (const [i, part] of parts.entries()) if (!isRecord(part)) throw invalid(op, `${at}[${i}]`, "a part", part);
  return parts;
}

/** The text of a text file: given as text, as UTF-8 bytes or in base64. */
function textOfFile(op: string, { data, mediaType }: Pick<LanguageModelV4FilePart, "data" | "mediaType">, at: string): string {
  if (!isRecord(data)) throw invalid(op, `${at}.data`, "the text or the bytes of a file", data);
  if (data.type === "text") return textOf(op, data.text, `${at}.data.text`);
  if (!/^text(\/|$)/i.test(mediaType)) throw unsupported(op, at, "text: the model reads text alone", `a file of type ${mediaType}`);
  if (data.type !== "data") throw unsupported(op, `${at}.data`, "the text or the bytes of a file", `a part of type ${data.type}`);
  const bytes = typeof data.data === "string" ? Buffer.from(data.data, "base64") : data.data;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw invalid(op, `${at}.data`, `the bytes of a text in UTF-8, for a file of type ${mediaType}`, bytes);
  }
}

function assistantOf(op: string, { content }: Assistant, at: string): ChatMessage {
  let [text, thoughts] = ["", undefined as string | undefined];
  const calls: object[] = [];
  for (const [i, part] of partsOf(op, content, at).entries()) {
    if (part.type === "text") text += textOf(op, part.text, `${at}[${i}].text`);
    else if (part.type === "reasoning") thoughts = (thoughts ?? "") + textOf(op, part.text, `${at}[${i}].text`);
    else if (part.type === "file") text += textOfFile(op, part, `${at}[${i}]`);
    else if (part.type === "tool-call") calls.push({ type: "function", id: part.toolCallId, function: { name: part.toolName, arguments: inputOf(op, part.input, `${at}[${i}].input`) } });
    else throw unsupported(op, `${at}[${i}]`, "text, reasoning or a call of a tool", `a part of type ${part.type}`);
  }
  return { role: "assistant", content: text, ...(thoughts === undefined ? {} : { reasoning_content: thoughts }), ...(calls.length > 0 ? { tool_calls: calls } : {}) };
}

/** A call's input: an object, or its JSON if the SDK could not read it. */
function inputOf(op: string, input: unknown, at: string): object {
  let value = input;
  try {
    if (typeof input === "string") value = parseWithDigits(input);
  } catch {
    // Refused below.
  }
  if (isRecord(value)) return value;
  throw invalid(op, at, "an object, or its JSON", input);
}

function resultOf(op: string, { toolCallId: id, toolName: name, output }: LanguageModelV4ToolResultPart, at: string): ChatMessage {
  return { role: "tool", name, tool_call_id: id, content: outputText(op, output, `${at}.output`) };
}

function outputText(op: string, output: LanguageModelV4ToolResultPart["output"], at: string): string {
  if (!isRecord(output)) throw invalid(op, at, "a tool's result with a type", output);
  const value = `${at}.value`;
  switch (output.type) {
    case "text":
    case "error-text":
      return textOf(op, output.value, value);
    case "json":
    case "error-json":
      if (output.value === undefined) throw invalid(op, value, "a value of JSON", output.value);
      return stringifyWithDigits(output.value);
    case "execution-denied":
      return textOf(op, output.reason ?? "The user has not allowed this call.", `${at}.reason`);
    case "content":
      return partsOf(op, output.value, value).map((part, i) => {
        if (part.type === "text") return textOf(op, part.text, `${value}[${i}].text`);
        if (part.type === "file") return textOfFile(op, part, `${value}[${i}]`);
        throw unsupported(op, `${value}[${i}]`, "text", `a part of type ${part.type}`);
      }).join("");
    default:
      throw invalid(op, `${at}.type`, "a type of the SDK's results of tools", (output as { readonly type: unknown }).type);
  }
}

function unsupported(op: string, argument: string, expected: string, received: string): UnsupportedError {
  return new UnsupportedError({ op, argument, expected, received });
}
