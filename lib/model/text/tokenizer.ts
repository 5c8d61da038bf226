import { existsSync } from "node:fs";
import { join } from "node:path";
import { expectMaker, maker } from "../../arguments/made.ts";
import type { Maker } from "../../arguments/made.ts";
import { membersOf } from "../../arguments/members.ts";
import { areTypedIds, asArray, reading } from "../../arguments/reading.ts";
import { asInteger, invalid, largestIndex } from "../../arguments/checks.ts";
import { BoundsError, FileError, describe } from "../../errors.ts";
import { findGguf } from "../../checkpoint/gguf/find-gguf.ts";
import { isRecord } from "../../checkpoint/json.ts";
import type { JsonObject } from "../../checkpoint/json.ts";
import { bytesOfToken } from "./byte-level.ts";
import { Detokenizer } from "./detokenizer.ts";
import { Encoder } from "./encoder.ts";
import { ExpressionError } from "./expression-worker.ts";
import { checkExpressions } from "./expressions.ts";
import { ggufHasTokenizer, readGgufTokenizer } from "./gguf-text.ts";
import type { TextPiece } from "./jinja/origin.ts";
import { checkReplacements } from "./replacements.ts";
import { readObject } from "./text-files.ts";
import { TooManyTokens } from "./token-limit.ts";
import { readTables } from "./tokenizer-tables.ts";
import type { TokenizerTables } from "./tokenizer-tables.ts";
import { readVocabulary } from "./vocabulary.ts";
import type { Vocabulary, VocabularyLimits } from "./vocabulary.ts";

/** Options of {@link Tokenizer.encode}. */
export interface EncodeOptions {
  /**
   * Whether to add the tokens that the tokenizer puts around a whole text, such as a start token. A chat template writes
   * such tokens itself. @default false
   */
  readonly addSpecialTokens?: boolean | undefined;
  /**
   * Whether the text of a control token, such as `<|im_end|>`, or of another added token becomes that token (`"parse"`, as in
   * transformers) or stays text (`"text"`, for user input). Each piece has its own setting. @default "parse"
   */
  readonly specialTokens?: "parse" | "text" | undefined;
}

/** Options of {@link Tokenizer.decode} and {@link Tokenizer.detokenizer}. */
export interface DecodeOptions {
  /** Whether control tokens, such as the end of a message, appear as their text. @default false */
  readonly specialTokens?: boolean | undefined;
}

/** The most token ids of a model, as in the schemas of configurations. */
const largestVocabulary = 1 << 24;

/** The bytes of each token. */
export interface TokenBytes {
  /** The bytes of a token's text, including a control token's; undefined for an id without a token. */
  bytesOf(this: void, id: number): Uint8Array | undefined;
  /** Whether an id is a control token or another added token. */
  isAdded(this: void, id: number): boolean;
}

/** The bytes of a tokenizer's tokens. */
export let tokenBytes: (tokenizer: Tokenizer) => TokenBytes;

/**
 * Runs work that has no use for a text of more tokens: until the work returns, the tokenizer's `encode` throws a {@link BoundsError} as
 * soon as more are certain, without encoding the rest.
 */
export let encodingAtMost: <Result>(tokenizer: Tokenizer, most: number, work: () => Result) => Result;

/** The tokenizer of a model: byte-level BPE, from the `tokenizer.json` of its folder or the metadata of its GGUF file. */
export class Tokenizer {
  /** The file that the tokenizer came from. */
  readonly path: string;
  readonly #encoder: Encoder;
  readonly #vocabulary: Vocabulary;
  readonly #ids: Map<string, number>;
  /** The most ids of a text. */
  #most = Infinity;

  private constructor(by: Maker, path: string, encoder: Encoder, vocabulary: Vocabulary) {
    expectMaker(by, "Tokenizer", "Tokenizer.load(…)");
    this.path = path;
    this.#encoder = encoder;
    this.#vocabulary = vocabulary;
    this.#ids = new Map([...vocabulary.added].map((id) => [vocabulary.textOf(id)!, id]));
    Object.freeze(this);
  }

  static {
    encodingAtMost = (tokenizer, most, work) => {
      const before = tokenizer.#most;
      tokenizer.#most = most;
      try {
        return work();
      } finally {
        tokenizer.#most = before;
      }
    };
    tokenBytes = (tokenizer) => ({ bytesOf: (id) => tokenizer.#bytesOf(id, true), isAdded: (id) => tokenizer.#vocabulary.added.has(id) });
  }

  /**
   * Reads the tokenizer of a folder or a GGUF file, which takes 0.1 to 0.2 seconds for 250 thousand tokens.
   *
   * @returns undefined if the folder has no `tokenizer.json`, or the file no tokens.
   * @throws {GatedDeltaError} for a vocabulary size that no model has; {@link FileError} if the file is damaged or disagrees
   *   with the model's vocabulary; `UnsupportedError` for tokenizers other than byte-level BPE.
   */
  static load(folder: string, limits: VocabularyLimits): Tokenizer | undefined {
    const op = "Tokenizer.load";
    if (typeof folder !== "string") throw invalid(op, "folder", "the path of a folder or a GGUF file", folder);
    const { vocabSize, eosTokens } = readLimits(op, limits);
    const found = readTokenizer(op, folder, vocabSize);
    if (found === undefined) return undefined;
    const { path, tables, config } = found;
    const { json } = tables;
    const vocabulary = readVocabulary(op, path, tables, { vocabSize, eosTokens });
    const steps = [json["normalizer"], json["pre_tokenizer"]];
    checkExpressions(op, path, steps);
    checkReplacements(op, path, steps);
    let encoder: Encoder;
    try {
      encoder = new Encoder(tables, config, vocabulary);
    } catch (cause) {
      throw new FileError(path, { op, expected: "a tokenizer", received: `one that can't be used (${reason(cause)})`, cause });
    }
    return new Tokenizer(maker, path, encoder, vocabulary);
  }

  /** How many ids the tokenizer knows, from 0 on; some may have no token. A model may have more. */
  get size(): number {
    return this.#vocabulary.size;
  }

  /** The id of an added token, such as `<|im_end|>`, by its text; undefined if it does not exist. Never throws. */
  idOf(token: string): number | undefined {
    return this.#ids.get(token);
  }

  /** Whether an id belongs to a control token. Never throws. */
  isSpecial(id: number): boolean {
    return this.#vocabulary.special.has(id);
  }

  /**
   * The token ids of a text, or of its pieces as {@link ChatTemplate.pieces} returns them. Pieces form one text, whose tokens
   * may reach from one piece into the next.
   *
   * @throws {GatedDeltaError} of code `invalid-argument` for a value that is not a text. {@link FileError} if regular
   *   expressions of an unknown tokenizer take longer than a quarter of a second plus a millisecond per thousand characters.
   */
  encode(text: string | readonly TextPiece[], options: EncodeOptions = {}): number[] {
    const op = "tokenizer.encode";
    const { addSpecialTokens = false, specialTokens = "parse" } = membersOf(op, options, ["addSpecialTokens", "specialTokens"]);
    if (typeof addSpecialTokens !== "boolean") throw invalid(op, "addSpecialTokens", "a boolean", addSpecialTokens);
    if (specialTokens !== "parse" && specialTokens !== "text") throw invalid(op, "specialTokens", '"parse" | "text"', specialTokens);
    const pieces = typeof text === "string" ? [{ text, special: specialTokens === "parse" }] : readPieces(op, text);
    const ids = this.#encode(op, pieces, addSpecialTokens);
    const most = this.#vocabulary.size - 1;
    for (const id of ids) {
      if (id !== undefined && id >= 0 && id <= most) continue;
      throw new FileError(this.path, { op, expected: `only tokens of ids 0..${most} from its rules`, received: describe(id) });
    }
    return ids as number[];
  }

  #encode(op: string, pieces: readonly TextPiece[], addSpecialTokens: boolean): readonly (number | undefined)[] {
    try {
      return this.#encoder.encode(pieces, addSpecialTokens, this.#most);
    } catch (cause) {
      if (cause instanceof TooManyTokens) throw new BoundsError({ op, argument: "text", expected: `a text of at most ${this.#most} tokens`, received: "one of more" });
      if (!(cause instanceof ExpressionError)) throw cause;
      throw new FileError(this.path, { op, expected: "regular expressions that take bounded time", received: cause.message, cause });
    }
  }

  /**
   * The text of tokens. Invalid UTF-8 becomes U+FFFD, as does an incomplete character at the end.
   *
   * @param tokens ids from 0 on; ids without a token have no text.
   * @throws {GatedDeltaError} for values that are not ids.
   */
  decode(tokens: readonly number[] | Int32Array | Uint32Array, options: DecodeOptions = {}): string {
    const op = "tokenizer.decode";
    const ids: ArrayLike<unknown> = areTypedIds(tokens) ? tokens : asArray(op, "tokens", "an array of token ids", tokens, largestIndex);
    const detokenizer = this.detokenizer(options);
    let text = "";
    for (let i = 0; i < ids.length; i++) text += detokenizer.push(asInteger(op, `tokens[${i}]`, ids[i], 0, 2 ** 32 - 1));
    return text + detokenizer.end();
  }

  /**
   * Returns a decoder for tokens that come one by one.
   *
   * @throws {GatedDeltaError} for wrong options.
   */
  detokenizer(options: DecodeOptions = {}): Detokenizer {
    const op = "tokenizer.detokenizer";
    const { specialTokens = false } = membersOf(op, options, ["specialTokens"]);
    if (typeof specialTokens !== "boolean") throw invalid(op, "specialTokens", "a boolean", specialTokens);
    return new Detokenizer((id) => this.#bytesOf(id, specialTokens));
  }

  #bytesOf(id: number, specialTokens: boolean): Uint8Array | undefined {
    const { textOf, added, special } = this.#vocabulary;
    if (!specialTokens && special.has(id)) return undefined;
    const token = textOf(id);
    if (token === undefined) return undefined;
    return added.has(id) ? new TextEncoder().encode(token) : bytesOfToken(token);
  }
}

/** Whether a folder or a GGUF file has a tokenizer, which is not read. */
export function hasTokenizer(folder: string): boolean {
  const gguf = findGguf(folder);
  return gguf === undefined ? existsSync(join(folder, "tokenizer.json")) : ggufHasTokenizer(gguf);
}

function readLimits(op: string, limits: VocabularyLimits): VocabularyLimits {
  if (typeof limits !== "object" || limits === null) throw invalid(op, "limits", "{ vocabSize, eosTokens }", limits);
  return reading(op, "limits", () => {
    const vocabSize = asInteger(op, "limits.vocabSize", limits.vocabSize, 1, largestVocabulary);
    const ends = asArray(op, "limits.eosTokens", "an array of token ids", limits.eosTokens, vocabSize);
    return { vocabSize, eosTokens: ends.map((id, i) => asInteger(op, `limits.eosTokens[${i}]`, id, 0, largestIndex)) };
  });
}

/** A `tokenizer.json` and its `tokenizer_config.json`, or a GGUF file's equivalents. */
function readTokenizer(op: string, folder: string, vocabSize: number): { readonly path: string; readonly tables: TokenizerTables; readonly config: JsonObject } | undefined {
  const gguf = findGguf(folder);
  if (gguf !== undefined) {
    const found = readGgufTokenizer(op, gguf, vocabSize);
    return found && { path: gguf, ...found };
  }
  const path = join(folder, "tokenizer.json");
  const tables = readTables(op, path);
  return tables && { path, tables, config: readObject(op, join(folder, "tokenizer_config.json"), "a tokenizer's configuration") ?? {} };
}

function readPieces(op: string, value: unknown): TextPiece[] {
  const expected = "a string, or an array of { text, special }";
  return asArray(op, "text", expected, value, largestIndex).map((piece, i) => {
    const { text, special } = reading(op, `text[${i}]`, () => (isRecord(piece) ? { text: piece["text"], special: piece["special"] } : { text: undefined, special: undefined }));
    if (typeof text !== "string") throw invalid(op, `text[${i}].text`, "a string", text);
    if (typeof special !== "boolean") throw invalid(op, `text[${i}].special`, "a boolean", special);
    return { text, special };
  });
}

function reason(cause: unknown): string {
  return cause instanceof Error ? cause.message : describe(cause);
}
