import { UnsupportedError } from "../../errors.ts";
import { ChatTemplate } from "./chat-template.ts";
import type { ChatMessage, ChatOptions } from "./chat-template.ts";
import { Tokenizer, hasTokenizer } from "./tokenizer.ts";
import type { EncodeOptions } from "./tokenizer.ts";
import type { VocabularyLimits } from "./vocabulary.ts";

/**
 * A model's tokenizer and chat templates, each read from the folder or GGUF file on first use. A model without them works on token ids.
 *
 * Reading a tokenizer of 250 thousand tokens blocks the thread for 0.1 to 0.2 seconds. So a server should read {@link tokenizer} once
 * before it takes requests. Programs that work on token ids never read it.
 */
export class ModelText {
  /** The folder, or the GGUF file. */
  readonly folder: string;
  readonly #limits: VocabularyLimits;
  #found = false;
  #tokenizer: Tokenizer | undefined;
  #template: ChatTemplate | undefined;

  constructor(folder: string, limits: VocabularyLimits) {
    this.folder = folder;
    this.#limits = limits;
  }

  /** Whether the folder has a tokenizer, which is not read. */
  get hasTokenizer(): boolean {
    return (this.#found ||= this.#tokenizer !== undefined || hasTokenizer(this.folder));
  }

  /**
   * The tokenizer.
   *
   * @throws {UnsupportedError} if the folder has none, and as {@link Tokenizer.load}.
   */
  get tokenizer(): Tokenizer {
    const found = (this.#tokenizer ??= Tokenizer.load(this.folder, this.#limits));
    if (found !== undefined) return found;
    const received = `none in ${this.folder}: pass and read token ids instead`;
    throw new UnsupportedError({ op: "model.text", expected: "a tokenizer.json, or a GGUF file with a tokenizer", received });
  }

  /**
   * The chat templates.
   *
   * @throws {UnsupportedError} if the folder has none, and as {@link ChatTemplate.load}.
   */
  get template(): ChatTemplate {
    const found = (this.#template ??= ChatTemplate.load(this.folder));
    if (found !== undefined) return found;
    const expected = "a chat_template.jinja, or a chat_template in tokenizer_config.json or a GGUF file";
    throw new UnsupportedError({ op: "model.text", expected, received: `none in ${this.folder}` });
  }

  /**
   * The token ids of a text: {@link Tokenizer.encode}.
   *
   * @throws {UnsupportedError} if the folder has no tokenizer; as {@link Tokenizer.encode}.
   */
  encode(text: string, options?: EncodeOptions): number[] {
    return this.tokenizer.encode(text, options);
  }

  /**
   * The token ids of a conversation, ready for an answer: {@link ChatTemplate.pieces}, then {@link Tokenizer.encode}.
   *
   * @throws {UnsupportedError} if the folder has no chat template or no tokenizer; as {@link ChatTemplate.render}.
   */
  chat(messages: readonly ChatMessage[], options?: ChatOptions): number[] {
    return this.tokenizer.encode(this.template.pieces(messages, options));
  }
}
