/** The tokens of a tokenizer, checked against the vocabulary of a model. */
import { FileError, describe } from "../../errors.ts";
import { isRecord } from "../../checkpoint/json.ts";
import type { JsonObject } from "../../checkpoint/json.ts";
import type { AddedToken } from "./added-tokens.ts";
import { byteCharacters } from "./byte-level.ts";
import type { TokenizerTables } from "./tokenizer-tables.ts";

/** In UTF-16 units; the longest published tokens have about thirty. The search compares that many units at each place of a text. */
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
  /** Ids are 0 .. size − 1; some may have no token. */
  readonly size: number;
  /** The token of an id; for an added token its text. Undefined for an id without a token. */
  textOf(this: void, id: number): string | undefined;
  /** The id of a token of the vocabulary. Added tokens may be missing there. */
  idOf(this: void, token: string): number | undefined;
  /** Ids of added tokens. */
  readonly added: ReadonlySet<number>;
  /** Ids of control tokens, which are among the added ones. */
  readonly special: ReadonlySet<number>;
  /** How added tokens are found in a text. */
  readonly rules: readonly AddedToken[];
}

/**
 * Checks the tokens.
 *
 * @throws {FileError} for tokens outside these limits, ids shared by two tokens, merges that make no token, and members of other types.
 */
export function readVocabulary(op: string, path: string, { json, tokens, ids, merges }: TokenizerTables, limits: VocabularyLimits): Vocabulary {
  const { added_tokens: addedTokens = [] } = json;
  const refuse = (expected: string, received: string) => new FileError(path, { op, expected, received });
  if (!Array.isArray(addedTokens)) throw refuse("added_tokens: an array", describe(addedTokens));

  const most = limits.vocabSize - 1;
  /** By id: the place of its token plus 1, or 0. */
  const places = new Int32Array(limits.vocabSize);
  const contents = new Map<number, string>();
  const added = new Set<number>();
  const special = new Set<number>();
  const rules: AddedToken[] = [];
  let size = 0;
  const textOf = (id: number): string | undefined => contents.get(id) ?? (id < size && places[id]! > 0 ? tokens.at(places[id]! - 1) : undefined);
  const idOf = (token: string): number | undefined => {
    const place = tokens.find(token);
    return place === undefined ? undefined : (ids[place] as number);
  };
  const isFree = (id: unknown): id is number => typeof id === "number" && Number.isInteger(id) && id >= 0 && id <= most && places[id] === 0;
  const expectFree = (token: string, id: unknown): number => {
    const what = `the id of ${describe(token)}`;
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0) throw refuse(`${what}: an integer from 0 on`, describe(id));
    if (id > most) throw refuse(`${what} to be one of the model's, 0..${most}`, describe(id));
    const before = textOf(id);
    if (before !== undefined && before !== token) throw refuse(`${what} to be unique`, `${id}, the id of ${describe(before)}`);
    return id;
  };
  for (let place = 0; place < tokens.length; place++) {
    const given = ids[place];
    const id = isFree(given) ? given : expectFree(tokens.at(place), given);
    places[id] = place + 1;
    if (id >= size) size = id + 1;
  }
  for (const [i, one] of addedTokens.entries()) {
    const { content, id, special: isSpecial, single_word: singleWord, lstrip, rstrip, normalized } = isRecord(one) ? one : ({} as JsonObject);
    if (typeof content !== "string" || content === "") throw refuse(`added_tokens[${i}].content: a text`, describe(content));
    if (content.length > longestAddedToken) throw refuse(`added_tokens[${i}].content: at most ${longestAddedToken} characters`, `${content.length}`);
    const known = expectFree(content, id);
    const inVocabulary = idOf(content);
    if (inVocabulary !== undefined && inVocabulary !== known) {
      throw refuse(`the id of ${describe(content)} to be one`, `${inVocabulary} in model.vocab and ${known} in added_tokens`);
    }
    contents.set(known, content);
    size = Math.max(size, known + 1);
    added.add(known);
    if (isSpecial === true) special.add(known);
    const flags = { singleWord: singleWord === true, leftBlanks: lstrip === true, rightBlanks: rstrip === true };
    rules.push({ id: known, content, ...flags, normalized: typeof normalized === "boolean" ? normalized : isSpecial !== true });
  }
  const missing = byteCharacters.findIndex((character) => idOf(character) === undefined);
  if (missing >= 0) throw refuse("a token for each byte", `none for byte ${missing}`);
  // Text that becomes no token would be lost; the reference also refuses such tokenizers. An added token stands for its own text, which
  // equals the text of the merged bytes if these are ASCII.
  const bad = merges.firstJoinedOutside(tokens, new Set([...contents.values()].filter((content) => /^[!-~]+$/.test(content))));
  if (bad !== undefined) throw refuse("merges that each make a token", `none for merge ${bad}, ${describe(merges.at(bad).replace("\ufffd", " "))}`);
  for (const id of limits.eosTokens) {
    if (textOf(id) === undefined) throw refuse(`a token with id ${id}, an end token of this model`, "none");
  }
  return { size, textOf, idOf, added, special, rules };
}
