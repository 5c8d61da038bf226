/** The tokens in a `tokenizer.json`, checked against the vocabulary of a model. */
import { FileError, UnsupportedError, describe } from "../../errors.ts";
import { isRecord } from "../../checkpoint/json.ts";
import type { JsonObject } from "../../checkpoint/json.ts";
import type { AddedToken } from "./added-tokens.ts";
import { byteCharacters } from "./byte-level.ts";

/** In UTF-16 units; the longest published ones have about thirty. The search compares that many units at each place of a text. */
const longestAddedToken = 1024;

/** A model's vocabulary, with which its tokenizer must agree. */
export interface VocabularyLimits {
  /** Token ids are 0 .. vocabSize − 1. */
  readonly vocabSize: number;
  /** End tokens, which the tokenizer must know. */
  readonly eosTokens: readonly number[];
}

/** The tokens of a tokenizer. */
export interface Vocabulary {
  /** The token of each id; for an added token its text. Undefined for ids without a token. */
  readonly tokens: readonly (string | undefined)[];
  /** Ids of added tokens. */
  readonly added: ReadonlySet<number>;
  /** Ids of control tokens, which are among the added ones. */
  readonly special: ReadonlySet<number>;
  /** How added tokens are found in a text. */
  readonly rules: readonly AddedToken[];
}

/**
 * Reads the tokens.
 *
 * @throws {UnsupportedError} for tokenizers other than byte-level BPE; {@link FileError} for tokens outside these limits, ids
 *   that two tokens share, and members of other types.
 */
export function readVocabulary(op: string, path: string, json: JsonObject, limits: VocabularyLimits): Vocabulary {
  const { model, decoder, added_tokens: addedTokens = [] } = json;
  const refuse = (expected: string, received: string) => new FileError(path, { op, expected, received });
  if (!isRecord(model)) throw refuse("model: an object", describe(model));
  expectByteLevel(op, path, model, decoder);
  const vocab = model["vocab"];
  if (!isRecord(vocab)) throw refuse("model.vocab: an object of token ids", describe(vocab));
  if (!Array.isArray(model["merges"])) throw refuse("model.merges: an array", describe(model["merges"]));
  if (!Array.isArray(addedTokens)) throw refuse("added_tokens: an array", describe(addedTokens));

  const tokens: (string | undefined)[] = [];
  const added = new Set<number>();
  const special = new Set<number>();
  const rules: AddedToken[] = [];
  const most = limits.vocabSize - 1;
  const put = (token: string, id: unknown): number => {
    const what = (): string => `the id of ${describe(token)}`;
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0) throw refuse(`${what()}: an integer from 0 on`, describe(id));
    if (id > most) throw refuse(`${what()} to be one of the model's, 0..${most}`, describe(id));
    const before = tokens[id];
    if (before !== undefined && before !== token) throw refuse(`${what()} to be unique`, `${id}, the id of ${describe(before)}`);
    while (tokens.length < id) tokens.push(undefined);
    tokens[id] = token;
    return id;
  };
  for (const token in vocab) put(token, vocab[token]);
  for (const [i, one] of addedTokens.entries()) {
    const { content, id, special: isSpecial, single_word: singleWord, lstrip, rstrip, normalized } = isRecord(one) ? one : ({} as JsonObject);
    if (typeof content !== "string" || content === "") throw refuse(`added_tokens[${i}].content: a text`, describe(content));
    if (content.length > longestAddedToken) throw refuse(`added_tokens[${i}].content: at most ${longestAddedToken} characters`, `${content.length}`);
    const known = put(content, id);
    if (Object.hasOwn(vocab, content) && vocab[content] !== id) {
      throw refuse(`the id of ${describe(content)} to be one`, `${describe(vocab[content])} in model.vocab and ${known} in added_tokens`);
    }
    added.add(known);
    if (isSpecial === true) special.add(known);
    const flags = { singleWord: singleWord === true, leftBlanks: lstrip === true, rightBlanks: rstrip === true };
    rules.push({ id: known, content, ...flags, normalized: typeof normalized === "boolean" ? normalized : isSpecial !== true });
  }
  const missing = byteCharacters.findIndex((character) => !Object.hasOwn(vocab, character));
  if (missing >= 0) throw refuse("a token for each byte", `none for byte ${missing}`);
  for (const id of limits.eosTokens) {
    if (tokens[id] === undefined) throw refuse(`a token with id ${id}, an end token of this model`, "none");
  }
  return { tokens, added, special, rules };
}

/** Refuses other tokenizers: the bytes of a token are known only for byte-level BPE. */
function expectByteLevel(op: string, path: string, model: JsonObject, decoder: unknown): void {
  const { type } = model;
  // Old files leave the type out; only BPE has merges.
  if (type !== "BPE" && !(type === undefined && "merges" in model)) {
    throw new UnsupportedError({ op, argument: `${path}: model.type`, expected: `"BPE"`, received: describe(type) });
  }
  const found = isRecord(decoder) ? decoder["type"] : decoder;
  if (found !== "ByteLevel") {
    throw new UnsupportedError({ op, argument: `${path}: decoder.type`, expected: `"ByteLevel"`, received: describe(found) });
  }
  for (const key of ["continuing_subword_prefix", "end_of_word_suffix"]) {
    const value = model[key] ?? "";
    if (value !== "") throw new UnsupportedError({ op, argument: `${path}: model.${key}`, expected: "none", received: describe(value) });
  }
}
