import { join } from "node:path";
import { invalid, largestIndex } from "../../arguments/checks.ts";
import { membersOf } from "../../arguments/members.ts";
import { asArray, reading } from "../../arguments/reading.ts";
import { FileError, GatedDeltaError, describe } from "../../errors.ts";
import { isJsonObject } from "../../safetensors/json.ts";
import type { JsonObject } from "../../safetensors/json.ts";
import { readObject, readText } from "./text-files.ts";

/** A message of a conversation. A template may read more of it than these, such as `tool_calls`. */
export interface ChatMessage {
  /** Who says it: `system`, `user`, `assistant` or `tool`. */
  readonly role: string;
  /** Its text, or parts of it in a form that the template knows. */
  readonly content?: unknown;
  /** Whatever else the template knows, such as `tool_calls`. */
  readonly [key: string]: unknown;
}

/** Options of {@link ChatTemplate.render}. */
export interface ChatOptions {
  /** Whether the text ends with the beginning of an answer. @default true */
  readonly addGenerationPrompt?: boolean | undefined;
  /** Descriptions of tools, in the form that the template wants: usually JSON schemas of functions. */
  readonly tools?: readonly object[] | undefined;
  /** Which of a model's templates to use, where it has several. @default "default" */
  readonly template?: string | undefined;
  /** Further values for the template, by name, such as `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
}

/** What is used of `@huggingface/jinja`. */
interface Template {
  render(values: Record<string, unknown>): string;
}

const optionNames = ["addGenerationPrompt", "tools", "template", "variables"] as const;

/**
 * A model's chat templates: how a conversation is written as one text. They are Jinja, in the folder's
 * `chat_template.jinja`, else in its `tokenizer_config.json`, there as one text or as a list of named ones.
 */
export class ChatTemplate {
  /** The file that they came from. */
  readonly path: string;
  readonly #sources: ReadonlyMap<string, string>;
  readonly #parsed = new Map<string, Template>();
  /** Texts of the special tokens by their names in `tokenizer_config.json`, which templates may use. */
  readonly #tokens: Readonly<Record<string, string>>;

  private constructor(path: string, sources: ReadonlyMap<string, string>, tokens: Readonly<Record<string, string>>) {
    this.path = path;
    this.#sources = sources;
    this.#tokens = tokens;
    Object.freeze(this);
  }

  /**
   * Reads the templates of a folder.
   *
   * @returns undefined where it has none.
   * @throws {FileError} for files that are damaged; templates are parsed when they are used first.
   */
  static load(folder: string): ChatTemplate | undefined {
    const op = "ChatTemplate.load";
    const configPath = join(folder, "tokenizer_config.json");
    const config = readObject(op, configPath, "a tokenizer's configuration") ?? {};
    const path = join(folder, "chat_template.jinja");
    const text = readText(op, path, "a chat template");
    const sources = text !== undefined ? new Map([["default", text]]) : templatesOf(op, configPath, config["chat_template"]);
    if (sources.size === 0) return undefined;
    return new ChatTemplate(text !== undefined ? path : configPath, sources, specialTokensOf(config));
  }

  /** Names of the templates. */
  get names(): string[] {
    return [...this.#sources.keys()];
  }

  /**
   * A conversation as one text.
   *
   * @throws {GatedDeltaError} of code `invalid-argument` for arguments of other kinds, and for what the template itself
   *   refuses: its words are in the message. {@link FileError} for a template that is no Jinja.
   */
  render(messages: readonly ChatMessage[], options: ChatOptions = {}): string {
    const op = "chat";
    const given = asArray(op, "messages", "an array of { role, content }", messages, largestIndex);
    const { addGenerationPrompt = true, tools, template = "default", variables } = optionsOf(op, options);
    for (const [i, message] of given.entries()) {
      const role: unknown = reading(op, `messages[${i}]`, () => (message as Partial<ChatMessage> | null)?.role);
      if (typeof role !== "string") throw invalid(op, `messages[${i}].role`, "a string", role);
      const said = reading(op, `messages[${i}]`, () => Object.keys(message as ChatMessage));
      // A message of nothing but a role is a misspelt one: `contents`, say.
      if (!said.includes("content") && !said.includes("tool_calls")) {
        throw invalid(op, `messages[${i}].content`, "a text, or parts of one", `a message of ${said.join(", ")}`);
      }
    }
    const parsed = this.#template(op, template);
    const values = reading(op, "messages", () => ({
      ...this.#tokens,
      ...variables,
      messages: plain(given),
      ...(tools === undefined ? {} : { tools: plain(tools) }),
      add_generation_prompt: addGenerationPrompt,
    }));
    try {
      return parsed.render(values);
    } catch (cause) {
      const message = `the template refuses them: ${cause instanceof Error ? cause.message : describe(cause)}`;
      throw new GatedDeltaError("invalid-argument", { op, argument: "messages", message, cause });
    }
  }

  #template(op: string, name: string): Template {
    const source = this.#sources.get(name);
    if (source === undefined) throw invalid(op, "template", this.names.map((one) => JSON.stringify(one)).join(" | "), name);
    let parsed = this.#parsed.get(name);
    if (parsed !== undefined) return parsed;
    try {
      parsed = new (library().Template)(source);
    } catch (cause) {
      const received = cause instanceof Error ? cause.message : describe(cause);
      throw new FileError(this.path, { op, expected: "a chat template in Jinja", received, cause });
    }
    this.#parsed.set(name, parsed);
    return parsed;
  }
}

/** Loaded when the first template is used. */
const library = () => require("@huggingface/jinja") as { readonly Template: new (source: string) => Template };

/** A copy made of JSON's values: what a template reads has no getters, functions or circles. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function optionsOf(op: string, value: ChatOptions): ChatOptions {
  const { addGenerationPrompt, tools, template, variables } = membersOf(op, value, optionNames);
  return reading(op, "options", () => {
    if (addGenerationPrompt !== undefined && typeof addGenerationPrompt !== "boolean") {
      throw invalid(op, "addGenerationPrompt", "a boolean", addGenerationPrompt);
    }
    if (tools !== undefined && !Array.isArray(tools)) throw invalid(op, "tools", "an array of objects", tools);
    if (template !== undefined && typeof template !== "string") throw invalid(op, "template", "a template's name", template);
    if (variables !== undefined && !isJsonObject(variables)) throw invalid(op, "variables", "an object of values", variables);
    return { addGenerationPrompt, tools, template, variables: variables && (plain(variables) as JsonObject) };
  });
}

function templatesOf(op: string, path: string, value: unknown): Map<string, string> {
  if (value === undefined || value === null) return new Map();
  if (typeof value === "string") return new Map([["default", value]]);
  const refuse = (at: string, found: unknown) =>
    new FileError(path, { op, expected: `chat_template${at}: a text, or an array of { name, template }`, received: describe(found) });
  if (!Array.isArray(value)) throw refuse("", value);
  const found = new Map<string, string>();
  for (const [i, one] of value.entries()) {
    const { name, template } = isJsonObject(one) ? one : ({} as JsonObject);
    if (typeof name !== "string" || typeof template !== "string" || found.has(name)) throw refuse(`[${i}]`, one);
    found.set(name, template);
  }
  return found;
}

/** `eos_token` and the like, each a text or { content }. */
function specialTokensOf(config: JsonObject): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [key, value] of Object.entries(config)) {
    if (!key.endsWith("_token")) continue;
    const content = isJsonObject(value) ? value["content"] : value;
    if (typeof content === "string") found[key] = content;
  }
  return found;
}
