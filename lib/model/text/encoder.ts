/**
 * Encodes texts as token ids. `@huggingface/tokenizers` normalizes, splits and merges the text between added tokens. Added
 * tokens are found here, because the library ignores `single_word`, and because some texts must contain none.
 */
import type { JsonObject } from "../../checkpoint/json.ts";
import { AddedTokens } from "./added-tokens.ts";
import type { Section } from "./added-tokens.ts";
import { guardExpressions, startClock } from "./expressions.ts";
import type { Clock } from "./expressions.ts";
import type { TextPiece } from "./jinja/origin.ts";
import { KnownTexts } from "./known-texts.ts";
import { LongestTokens } from "./longest-tokens.ts";
import { withOrderedMarks } from "./marks.ts";
import type { TextTable } from "./text-table.ts";
import { TooManyTokens, shrinkageOf } from "./token-limit.ts";
import type { TokenizerTables } from "./tokenizer-tables.ts";
import type { Vocabulary } from "./vocabulary.ts";
import { WordEncoder } from "./word-encoder.ts";
import type { Ids, LibraryTokenizer, Lookup } from "./word-encoder.ts";

/** Loaded with the first tokenizer. */
const library = () => require("@huggingface/tokenizers") as { readonly Tokenizer: new (tokenizer: object, config: object) => LibraryTokenizer };

/** Encodes with the tokenizer of a file. */
export class Encoder {
  readonly #tokenizer: LibraryTokenizer;
  readonly #words: WordEncoder;
  readonly #added: ReadonlySet<number>;
  readonly #textOf: Vocabulary["textOf"];
  /** Added tokens to look for in the original text, in the normalized text, and all of them. */
  readonly #raw: AddedTokens;
  readonly #normalized: AddedTokens | undefined;
  readonly #all: AddedTokens;
  readonly #clock: Clock = { left: 0 };
  readonly #known = new KnownTexts<Ids>();
  /** The factor by which a text's bytes can shrink before its tokens are made; undefined if all of them may be dropped. */
  readonly #shrinkage: number | undefined;
  readonly #ordersMarks: boolean;
  readonly #rules: Vocabulary["rules"];
  /** Whether an added token may take any number of blanks with it. */
  readonly #takesBlanks: boolean;
  readonly #longest: () => LongestTokens | undefined;
  #mostUnitsOfToken: number | undefined;
  #frame: { readonly before: Ids; readonly after: Ids } | undefined;

  constructor({ json, tokens, merges }: TokenizerTables, config: JsonObject, { added, textOf, idOf, rules }: Vocabulary) {
    const model = json["model"] as JsonObject;
    this.#tokenizer = new (library().Tokenizer)({ ...json, model: { ...model, type: "BPE", vocab: {}, merges: [] } }, config);
    useTables(this.#tokenizer.model, idOf, model["unk_token"], merges);
    guardExpressions(this.#tokenizer.normalizer, this.#clock);
    guardExpressions(this.#tokenizer.pre_tokenizer, this.#clock);
    this.#shrinkage = shrinkageOf(json, config);
    this.#ordersMarks = /^NFK?[CD]$/.test(String((json["normalizer"] as { readonly type?: unknown } | null | undefined)?.type));
    this.#takesBlanks = rules.some(({ leftBlanks, rightBlanks }) => leftBlanks || rightBlanks);
    let longest: LongestTokens | undefined;
    // The longest tokens are computed when the first text has to fit into limited room.
    this.#longest = () => (this.#shrinkage === undefined ? undefined : (longest ??= new LongestTokens(tokens, rules)));
    this.#words = new WordEncoder(this.#tokenizer, this.#longest);
    this.#added = added;
    this.#rules = rules;
    this.#textOf = textOf;
    const later = rules.filter(({ normalized }) => normalized);
    this.#raw = new AddedTokens(rules.filter(({ normalized }) => !normalized));
    startClock(this.#clock, 0);
    this.#normalized = later.length === 0 ? undefined : new AddedTokens(later, (content) => this.#normal(content));
    this.#all = new AddedTokens(rules);
  }

  /**
   * @param frame whether to add the tokens that the tokenizer puts around a whole text.
   * @param most the most ids that the caller has room for.
   * @throws {TooManyTokens} for more.
   */
  encode(pieces: readonly TextPiece[], frame: boolean, most = Infinity): Ids {
    const text = pieces.map((piece) => piece.text).join("");
    if (text.length > most && text.length > most * this.#mostUnits()) throw new TooManyTokens();
    startClock(this.#clock, text.length);
    const ids = pieces.every(({ special }) => special) ? this.#parsed(text, most) : this.#mixed(text, pieces, most);
    const { before, after } = frame ? (this.#frame ??= this.#findFrame()) : { before: [], after: [] };
    if (before.length + ids.length + after.length > most) throw new TooManyTokens();
    return frame ? [...before, ...ids, ...after] : ids;
  }

  /** The ids of a text in which the text of an added token always becomes that token. */
  #parsed(text: string, most: number): Ids {
    const ids: (number | undefined)[] = [];
    const whole = (part: string) => [{ start: 0, end: part.length }];
    const put = (sections: readonly Section[], ofText: (text: string) => void) => {
      for (const section of sections) {
        if ("token" in section) ids.push(section.token.id);
        else ofText(section.text);
      }
    };
    const plain = (part: string) => append(ids, this.#ofText(part, most - ids.length));
    put(this.#raw.split(text, whole(text)), (part) => {
      const normal = this.#normal(part);
      if (this.#normalized === undefined) plain(normal);
      else put(this.#normalized.split(normal, whole(normal)), plain);
    });
    return ids;
  }

  /** The ids of a text with pieces that must not contain added tokens. */
  #mixed(text: string, pieces: readonly TextPiece[], most: number): Ids {
    let end = 0;
    const ranges = pieces.map((piece) => ({ start: end, end: (end += piece.text.length), special: piece.special })).filter(({ special }) => special);
    const ids: (number | undefined)[] = [];
    for (const section of this.#all.split(text, ranges)) {
      if ("token" in section) ids.push(section.token.id);
      else for (const id of this.#ofText(this.#normal(section.text), most - ids.length)) append(ids, id !== undefined && this.#added.has(id) ? this.#spelt(id) : [id]);
    }
    return ids;
  }

  /** The most UTF-16 units of a text, before anything is done with it, that become one token. */
  #mostUnits(): number {
    const longest = this.#longest();
    if (longest === undefined || this.#takesBlanks) return Infinity;
    return (this.#mostUnitsOfToken ??= this.#shrinkage! * this.#rules.reduce((most, { content }) => Math.max(most, content.length, Buffer.byteLength(this.#normal(content))), longest.most));
  }

  #normal(text: string): string {
    const { normalizer } = this.#tokenizer;
    return normalizer === null ? text : normalizer(this.#ordersMarks ? withOrderedMarks(text) : text);
  }

  /** @param room the most ids. There may be more if the text was already encoded, or if some of it may be dropped. */
  #ofText(text: string, room = Infinity): Ids {
    return text === "" ? [] : this.#known.of(text, () => this.#words.encode(text, room));
  }

  /** Merging can produce an added token whose text is in the vocabulary; then its characters are encoded one by one. */
  #spelt(id: number): Ids {
    const characters = [...this.#textOf(id)!];
    return characters.length === 1 ? [id] : characters.flatMap((character) => this.#ofText(character));
  }

  #findFrame(): { readonly before: Ids; readonly after: Ids } {
    const probe = "a";
    const alone = this.#ofText(this.#normal(probe));
    const { ids } = this.#tokenizer.encode(probe, { add_special_tokens: true });
    const at = ids.findIndex((_, i) => alone.every((id, k) => ids[i + k] === id));
    return { before: ids.slice(0, Math.max(0, at)), after: ids.slice(at < 0 ? 0 : at + alone.length) };
  }
}

/**
 * Gives the library these tables. Its own are a map of all tokens and a map of all merges, with pairs in JSON as keys, which take
 * longer to make than the file to read.
 */
function useTables(model: LibraryTokenizer["model"], idOf: Vocabulary["idOf"], unknown: unknown, merges: TextTable): void {
  const lookup = (get: Lookup["get"]): Lookup => ({ get, has: (key) => get(key) !== undefined });
  const added = model.tokens_to_ids;
  model.tokens_to_ids = lookup((token) => added.get(token) ?? idOf(token));
  model.unk_token_id = typeof unknown === "string" ? idOf(unknown) : undefined;
  model.bpe_ranks = lookup((key) => {
    if (key.includes("\\")) return merges.find(...(JSON.parse(key) as [string, string]));
    const cut = key.indexOf('","', 2); // neither token has a quote
    return merges.find(key.slice(2, cut), key.slice(cut + 3, -2));
  });
}

/** Like `push`, but a spread of many items would overflow the stack. */
function append<Item>(to: Item[], items: readonly Item[]): void {
  for (const item of items) to.push(item);
}
