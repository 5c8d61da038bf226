import { join } from "node:path";
import { expectMaker, maker } from "../../arguments/made.ts";
import type { Maker } from "../../arguments/made.ts";
import { invalid } from "../../arguments/checks.ts";
import { checkOptions } from "../../arguments/options.ts";
import { reading } from "../../arguments/reading.ts";
import { FileError, GatedDeltaError, describe } from "../../errors.ts";
import { findGguf } from "../../checkpoint/gguf/find-gguf.ts";
import { isRecord } from "../../checkpoint/json.ts";
import type { JsonObject } from "../../checkpoint/json.ts";
import { statOf } from "../../checkpoint/regular-file.ts";
import { isKnownRole, plain, readMessages } from "./chat-messages.ts";
import type { ChatMessage } from "./chat-messages.ts";
import type { AnswerFormat } from "./formats/answer-format.ts";
import { formatOf } from "./formats/known-formats.ts";
import { readGgufTemplates } from "./gguf-text.ts";
import { BudgetError, largestTemplate, longestBlank } from "./jinja/budget.ts";
import { parse, render } from "./jinja/interpreter.ts";
import type { Program } from "./jinja/interpreter.ts";
import { piecesOf } from "./jinja/origin.ts";
import type { Text, TextPiece } from "./jinja/origin.ts";
import { isMap, isText, list, valueOf } from "./jinja/values.ts";
import type { Value } from "./jinja/values.ts";
import { chatOptions } from "./text-schemas.ts";
import { readObject, readText } from "./text-files.ts";

export type { ChatMessage } from "./chat-messages.ts";

/** Options of {@link ChatTemplate.render}. */
export interface ChatOptions {
  /** Whether the text ends with the start of an answer. @default true */
  readonly addGenerationPrompt?: boolean | undefined;
  /** Descriptions of tools, in the form that the template expects: usually JSON schemas of functions. */
  readonly tools?: readonly object[] | undefined;
  /** The name of the template to use, if the model has several. @default "default" */
  readonly template?: string | undefined;
  /**
   * Other values for the template, by name, such as `enable_thinking`. Not `messages`, `tools` and `add_generation_prompt`, which have
   * separate arguments.
   */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /**
   * Whether the text of a control token, such as `<|im_end|>`, or of another added token becomes that token within messages
   * and tools (`"parse"`, as in transformers) or stays text (`"text"`, for user input). Texts that the template itself
   * writes, and those in {@link variables}, always become tokens. @default "parse"
   */
  readonly specialTokens?: "parse" | "text" | undefined;
}

/** The source of a template by its name; undefined if there is none. */
export let templateSource: (template: ChatTemplate, name: string) => string | undefined;

/**
 * A model's chat templates, which write a conversation as one text. They are Jinja, in the folder's `chat_template.jinja`,
 * or else in its `tokenizer_config.json`, as one text or a list of named ones; or in the metadata of a GGUF file.
 */
export class ChatTemplate {
  /** The file that the templates came from. */
  readonly path: string;
  readonly #sources: ReadonlyMap<string, string>;
  readonly #parsed = new Map<string, Program>();
  /** Texts of the special tokens by their names in `tokenizer_config.json`, which templates may use. */
  readonly #tokens: Readonly<Record<string, string>>;

  private constructor(by: Maker, path: string, sources: ReadonlyMap<string, string>, tokens: Readonly<Record<string, string>>) {
    expectMaker(by, "ChatTemplate", "ChatTemplate.load(…)");
    this.path = path;
    this.#sources = sources;
    this.#tokens = tokens;
    Object.freeze(this);
  }

  static {
    templateSource = (template, name) => template.#sources.get(name);
  }

  /**
   * Reads the templates of a folder or a GGUF file.
   *
   * @returns undefined if there are none.
   * @throws {FileError} for damaged files; templates are parsed on first use.
   */
  static load(folder: string): ChatTemplate | undefined {
    const op = "ChatTemplate.load";
    if (typeof folder !== "string") throw invalid(op, "folder", "the path of a folder or a GGUF file", folder);
    const gguf = findGguf(folder);
    if (gguf !== undefined) return ChatTemplate.#of(op, gguf, readGgufTemplates(op, gguf));
    const configPath = join(folder, "tokenizer_config.json");
    const config = readObject(op, configPath, "a tokenizer's configuration") ?? {};
    const path = join(folder, "chat_template.jinja");
    // Do not read a file that is far too long: a UTF-16 unit takes at most three bytes of UTF-8.
    const bytes = statOf(path)?.size ?? 0;
    if (bytes > 3 * largestTemplate) throw new FileError(path, { op, expected: `a chat template of at most ${largestTemplate} characters`, received: `${bytes} bytes` });
    const text = readText(op, path, "a chat template");
    return text === undefined ? ChatTemplate.#of(op, configPath, config) : new ChatTemplate(maker, path, new Map([["default", text]]), specialTokensOf(config));
  }

  static #of(op: string, path: string, config: JsonObject): ChatTemplate | undefined {
    const sources = templatesOf(op, path, config["chat_template"]);
    return sources.size === 0 ? undefined : new ChatTemplate(maker, path, sources, specialTokensOf(config));
  }

  /** Names of the templates. */
  get names(): string[] {
    return [...this.#sources.keys()];
  }

  /**
   * How answers to a template's prompts are written.
   *
   * @param template the name of the template, if the model has several.
   * @throws {GatedDeltaError} of code `invalid-argument` for a name that the model does not have.
   */
  format(template = "default"): AnswerFormat {
    return formatOf(this.#source("chat", template));
  }

  /**
   * Renders a conversation as one text.
   *
   * @throws {GatedDeltaError} of code `invalid-argument` for arguments of other types, a role that is neither common nor
   *   named by the template, and messages that the template itself refuses; its error text is in the message.
   *   `UnsupportedError` for images and other parts that are not text. {@link FileError} for a template that is not
   *   valid Jinja, or that takes more than a million steps (plus one for each character of the messages) or too much memory.
   */
  render(messages: readonly ChatMessage[], options: ChatOptions = {}): string {
    return this.#render(messages, options).value;
  }

  /**
   * Renders a conversation as pieces for {@link Tokenizer.encode}. With `specialTokens: "text"` the texts of control tokens
   * and other added tokens become tokens in pieces that the template wrote, and stay text in pieces of the messages.
   *
   * @throws as {@link render}.
   */
  pieces(messages: readonly ChatMessage[], options: ChatOptions = {}): TextPiece[] {
    return piecesOf(this.#render(messages, options));
  }

  #render(messages: readonly ChatMessage[], options: ChatOptions): Text {
    const op = "chat";
    const checked = checkOptions(chatOptions, op, options);
    const { addGenerationPrompt, template, specialTokens } = checked;
    const source = this.#source(op, template);
    const tools = checked.tools && reading(op, "tools", () => plain(checked.tools!));
    const variables = checked.variables && reading(op, "variables", () => plain(checked.variables!));
    const read = readMessages(op, messages, source);
    const program = this.#program(op, template, source);
    const parsed = specialTokens === "parse";
    const values = new Map<string, Value>();
    for (const [name, value] of Object.entries({ documents: null, ...this.#tokens, add_generation_prompt: addGenerationPrompt })) values.set(name, valueOf(value, true));
    // Values that nest too deeply throw here.
    reading(op, "variables", () => {
      for (const [name, value] of Object.entries(variables?.value ?? {})) values.set(name, valueOf(value, true));
    });
    values.set("messages", reading(op, "messages", () => list(read.value.map((message) => messageOf(message, parsed, source)))));
    values.set("tools", reading(op, "tools", () => valueOf(tools?.value ?? null, parsed)));
    try {
      return render(program, values, read.characters + (tools?.characters ?? 0) + (variables?.characters ?? 0));
    } catch (cause) {
      const received = cause instanceof Error ? cause.message : describe(cause);
      if (cause instanceof BudgetError) throw new FileError(this.path, { op, expected: "a chat template that renders these messages within its work limit", received, cause });
      throw new GatedDeltaError("invalid-argument", { op, argument: "messages", message: `the template refuses them: ${received}`, cause });
    }
  }

  #source(op: string, name: string): string {
    const source = this.#sources.get(name);
    if (source === undefined) throw invalid(op, "template", this.names.map((one) => JSON.stringify(one)).join(" | "), name);
    return source;
  }

  #program(op: string, name: string, source: string): Program {
    let parsed = this.#parsed.get(name);
    if (parsed !== undefined) return parsed;
    const refuse = (expected: string, received: string, cause?: unknown) => new FileError(this.path, { op, expected, received, cause });
    if (source.length > largestTemplate) throw refuse(`a chat template of at most ${largestTemplate} characters`, `${source.length}`);
    if (new RegExp(`\\s{${longestBlank}}`).test(source)) throw refuse(`a chat template of fewer than ${longestBlank} spaces or line ends in a row`, "more");
    try {
      parsed = parse(source);
    } catch (cause) {
      throw refuse("a chat template in Jinja", cause instanceof Error ? cause.message : describe(cause), cause);
    }
    this.#parsed.set(name, parsed);
    return parsed;
  }
}

/** A message as a value. Its role was checked and counts as the template's, because some templates write `'<|' + message.role + '|>'`. */
function messageOf(message: unknown, fromTemplate: boolean, source: string): Value {
  const value = valueOf(message, fromTemplate);
  const role = isMap(value) ? value.value.get("role") : undefined;
  if (role !== undefined && isText(role) && isKnownRole(role.value, source)) role.fromTemplate = true;
  return value;
}

function templatesOf(op: string, path: string, value: unknown): Map<string, string> {
  if (value === undefined || value === null) return new Map();
  if (typeof value === "string") return new Map([["default", value]]);
  const refuse = (at: string, found: unknown) =>
    new FileError(path, { op, expected: `chat_template${at}: a text, or an array of { name, template }`, received: describe(found) });
  if (!Array.isArray(value)) throw refuse("", value);
  const found = new Map<string, string>();
  for (const [i, one] of value.entries()) {
    const { name, template } = isRecord(one) ? one : ({} as JsonObject);
    if (typeof name !== "string" || typeof template !== "string" || found.has(name)) throw refuse(`[${i}]`, one);
    found.set(name, template);
  }
  return found;
}

/** `eos_token` and similar settings, each a text or { content }. */
function specialTokensOf(config: JsonObject): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [key, value] of Object.entries(config)) {
    if (!key.endsWith("_token")) continue;
    const content = isRecord(value) ? value["content"] : value;
    if (typeof content === "string") found[key] = content;
  }
  return found;
}
