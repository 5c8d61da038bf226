import { existsSync } from "node:fs";
import { join } from "node:path";
import { UnsupportedError } from "../../errors.ts";
import { ChatTemplate } from "./chat-template.ts";
import type { ChatMessage, ChatOptions } from "./chat-template.ts";
import { Tokenizer } from "./tokenizer.ts";
import type { EncodeOptions } from "./tokenizer.ts";
import type { VocabularyLimits } from "./vocabulary.ts";

/**
 * Text of a model: the tokenizer and the chat templates of its folder, each read when it is used first. A model without
 * them works on token ids.
 *
 * Reading a tokenizer of 250 thousand tokens takes about a second in which nothing else runs: `@huggingface/tokenizers` makes
 * its tables in one call, and parsing the file alone takes longer than other work should wait. So a server reads
 * {@link tokenizer} once before it takes requests; a program that works on token ids never does.
 */
export class ModelText {
  /** The folder. */
  readonly folder: string;
  readonly #limits: VocabularyLimits;
  #tokenizer: Tokenizer | undefined;
  #template: ChatTemplate | undefined;

  constructor(folder: string, limits: VocabularyLimits) {
    this.folder = folder;
    this.#limits = limits;
  }

  /** Whether the folder has a tokenizer. It is not read. */
  get hasTokenizer(): boolean {
    return this.#tokenizer !== undefined || existsSync(join(this.folder, "tokenizer.json"));
  }

  /**
   * The tokenizer.
   *
   * @throws {UnsupportedError} where the folder has none, and as {@link Tokenizer.load}.
   */
  get tokenizer(): Tokenizer {
    const found = (this.#tokenizer ??= Tokenizer.load(this.folder, this.#limits));
    if (found !== undefined) return found;
    const received = `none in ${this.folder}: such a model takes and gives token ids`;
    throw new UnsupportedError({ op: "model.text", expected: "a tokenizer.json", received });
  }

  /**
   * The chat templates.
   *
   * @throws {UnsupportedError} where the folder has none, and as {@link ChatTemplate.load}.
   */
  get template(): ChatTemplate {
    const found = (this.#template ??= ChatTemplate.load(this.folder));
    if (found !== undefined) return found;
    const expected = "a chat_template.jinja, or a chat_template in tokenizer_config.json";
    throw new UnsupportedError({ op: "model.text", expected, received: `neither in ${this.folder}` });
  }

  /**
   * The token ids of a text: {@link Tokenizer.encode}.
   *
   * @throws {UnsupportedError} where the folder has no tokenizer; as {@link Tokenizer.encode}.
   */
  encode(text: string, options?: EncodeOptions): number[] {
    return this.tokenizer.encode(text, options);
  }

  /**
   * The token ids of a conversation, ready for an answer: {@link ChatTemplate.pieces}, then {@link Tokenizer.encode}.
   *
   * @throws {UnsupportedError} where the folder has no chat template or no tokenizer; as {@link ChatTemplate.render}.
   */
  chat(messages: readonly ChatMessage[], options?: ChatOptions): number[] {
    return this.tokenizer.encode(this.template.pieces(messages, options));
  }
}
