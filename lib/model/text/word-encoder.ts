/** Splits normalized text into words and merges each, by `@huggingface/tokenizers`, in parts: with limited room it stops once exceeded. */
import type { Step } from "./expressions.ts";
import { LongWords } from "./long-words.ts";
import type { LongestTokens } from "./longest-tokens.ts";
import { TooManyTokens } from "./token-limit.ts";

export type Ids = readonly (number | undefined)[];

/** The part of a map that the library uses. */
export interface Lookup {
  get(key: string): number | undefined;
  has(key: string): boolean;
}

/** A model of the library: from words to tokens. */
interface LibraryModel {
  (words: readonly string[]): readonly string[];
  tokens_to_ids: Lookup;
  bpe_ranks: Lookup;
  unk_token_id: number | undefined;
  readonly fuse_unk: boolean;
  readonly continuing_subword_suffix: unknown;
  bpe(word: string): readonly string[];
}

/** The library's way of splitting texts. */
interface LibraryStep extends Step {
  (texts: string | readonly string[], options: object): string[];
  readonly tokenizers?: readonly (LibraryStep | null)[];
}

/** The used part of a tokenizer of `@huggingface/tokenizers`. */
export interface LibraryTokenizer {
  readonly model: LibraryModel;
  readonly normalizer: (Step & ((text: string) => string)) | null;
  readonly pre_tokenizer: LibraryStep | null;
  encode(text: string, options: { add_special_tokens: boolean }): { readonly ids: Ids };
}

/** The fewest characters of a word that is merged here; the library merges shorter ones. */
const longWord = 256;

/** Numbers of words and characters in a part. */
const partWords = 1024;
const partCharacters = 2 ** 16;

/** The options that the library gives to the steps of a text without added tokens. */
const firstSection = { section_index: 0 };

/** Encodes text that is normalized and has no added tokens. */
export class WordEncoder {
  readonly #plain: LibraryTokenizer;
  readonly #model: LibraryModel;
  readonly #cut: LibraryStep | null;
  readonly #longest: () => LongestTokens | undefined;
  #room = Infinity;

  /** @param longest returns undefined if parts of a text may have no token. */
  constructor(tokenizer: LibraryTokenizer, longest: () => LongestTokens | undefined) {
    this.#model = tokenizer.model;
    this.#cut = tokenizer.pre_tokenizer;
    this.#longest = longest;
    const long = new LongWords({ get: (pair) => this.#model.bpe_ranks.get(pair) });
    const short = this.#model.bpe;
    if (!this.#model.continuing_subword_suffix) {
      this.#model.bpe = (word) => {
        if (word.length < longWord) return short.call(this.#model, word);
        const found = long.split(word);
        // Each token is looked up after this.
        if (found.length > this.#room && this.#longest() !== undefined) throw new TooManyTokens();
        return found;
      };
    }
    const whole = { split: (text: string) => [text] };
    const { tokens_to_ids, unk_token_id } = tokenizer.model;
    this.#plain = Object.assign(Object.create(tokenizer) as LibraryTokenizer, {
      normalizer: null,
      pre_tokenizer: null,
      model: Object.assign((texts: readonly string[]) => this.#tokens(texts), { tokens_to_ids, unk_token_id }),
      added_tokens_map: new Map(),
      splitter_unnormalized: whole,
      splitter_normalized: whole,
    });
  }

  /**
   * The ids of a text.
   *
   * @param room the most ids.
   * @throws {TooManyTokens} for more, unless the tokenizer is of a kind that may drop text.
   */
  encode(text: string, room: number): Ids {
    if (room !== Infinity && this.#longest()?.exceeds(text, room) === true) throw new TooManyTokens();
    this.#room = room;
    return this.#plain.encode(text, { add_special_tokens: false }).ids;
  }

  #tokens(texts: readonly string[]): readonly string[] {
    const model = this.#model;
    // Where unknown tokens become one, a cut could be between them.
    if (this.#room === Infinity || model.fuse_unk) return model(this.#cut === null ? texts : texts.flatMap((text) => this.#cut!(text, firstSection)));
    const longest = this.#longest();
    const tokens: string[] = [];
    const expectRoom = (more: number): void => {
      if (longest !== undefined && tokens.length + more > this.#room) throw new TooManyTokens();
    };
    for (const text of texts) {
      for (const words of wordsOf(this.#cut, text)) {
        expectRoom(words.reduce((least, { length }) => least + Math.ceil(length / (longest?.most ?? Infinity)), 0));
        for (const token of model(words)) tokens.push(token);
        expectRoom(0);
      }
    }
    return tokens;
  }
}

/** The words of a text, in parts: each is split on demand if a JavaScript expression splits first, otherwise there is only one part. */
export function* wordsOf(cut: LibraryStep | null, text: string): Generator<readonly string[], void, void> {
  if (cut === null) return yield [text];
  const [first, ...others] = cut.tokenizers ?? [cut];
  const { type, behavior, invert } = (first?.config ?? {}) as { readonly type?: unknown; readonly behavior?: unknown; readonly invert?: unknown };
  const { pattern } = first ?? {};
  const removes = typeof behavior === "string" && behavior.toLowerCase() === "removed";
  if (type !== "Split" || !(pattern instanceof RegExp) || invert === true || removes) return yield cut(text, firstSection);
  let [pieces, characters] = [[] as string[], 0];
  for (const piece of piecesOf(text, pattern)) {
    pieces.push(piece);
    characters += piece.length;
    if (pieces.length < partWords && characters < partCharacters) continue;
    yield others.reduce((words, step) => (step === null ? words : step(words, firstSection)), pieces);
    [pieces, characters] = [[], 0];
  }
  yield others.reduce((words, step) => (step === null ? words : step(words, firstSection)), pieces);
}

/** The matches of an expression and the text between them. */
function* piecesOf(text: string, pattern: RegExp): Generator<string, void, void> {
  let end = 0;
  for (const { 0: match, index } of text.matchAll(pattern)) {
    if (end < index) yield text.slice(end, index);
    if (match !== "") yield match;
    end = index + match.length;
  }
  if (end < text.length) yield text.slice(end);
}
