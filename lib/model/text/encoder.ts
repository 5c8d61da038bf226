/**
 * Encodes texts as token ids. `@huggingface/tokenizers` normalizes, cuts and merges the text between added tokens. Added
 * tokens are found here, because the library ignores `single_word`, and because some texts must contain none.
 */
import type { JsonObject } from "../../checkpoint/json.ts";
import { AddedTokens } from "./added-tokens.ts";
import type { Section } from "./added-tokens.ts";
import { guardExpressions, startClock } from "./expressions.ts";
import type { Clock, Step } from "./expressions.ts";
import type { TextPiece } from "./jinja/origin.ts";
import { KnownTexts } from "./known-texts.ts";
import type { TextTable } from "./text-table.ts";
import type { TokenizerTables } from "./tokenizer-tables.ts";
import type { Vocabulary } from "./vocabulary.ts";

type Ids = readonly (number | undefined)[];

/** The part of a map that the library uses. */
interface Lookup {
  get(key: string): number | undefined;
  has(key: string): boolean;
}

/** The used part of a tokenizer of `@huggingface/tokenizers`. */
interface LibraryTokenizer {
  readonly model: { tokens_to_ids: Lookup; bpe_ranks: Lookup; unk_token_id: number | undefined };
  readonly normalizer: (Step & ((text: string) => string)) | null;
  readonly pre_tokenizer: Step | null;
  encode(text: string, options: { add_special_tokens: boolean }): { readonly ids: Ids };
}

/** Loaded with the first tokenizer. */
const library = () => require("@huggingface/tokenizers") as { readonly Tokenizer: new (tokenizer: object, config: object) => LibraryTokenizer };

/** Encodes with the tokenizer of a file. */
export class Encoder {
  readonly #tokenizer: LibraryTokenizer;
  /** The same tokenizer, for text that is already normalized and has no added tokens. */
  readonly #plain: LibraryTokenizer;
  readonly #added: ReadonlySet<number>;
  readonly #textOf: Vocabulary["textOf"];
  /** Added tokens to look for in the original text, in the normalized text, and all of them. */
  readonly #raw: AddedTokens;
  readonly #normalized: AddedTokens | undefined;
  readonly #all: AddedTokens;
  readonly #clock: Clock = { left: 0 };
  readonly #known = new KnownTexts<Ids>();
  #frame: { readonly before: Ids; readonly after: Ids } | undefined;

  constructor({ json, merges }: TokenizerTables, config: object, { added, textOf, idOf, rules }: Vocabulary) {
    const model = json["model"] as JsonObject;
    this.#tokenizer = new (library().Tokenizer)({ ...json, model: { ...model, type: "BPE", vocab: {}, merges: [] } }, config);
    useTables(this.#tokenizer.model, idOf, model["unk_token"], merges);
    const whole = { split: (text: string) => [text] };
    this.#plain = Object.assign(Object.create(this.#tokenizer) as LibraryTokenizer, {
      normalizer: null,
      added_tokens_map: new Map(),
      splitter_unnormalized: whole,
      splitter_normalized: whole,
    });
    guardExpressions(this.#tokenizer.normalizer, this.#clock);
    guardExpressions(this.#tokenizer.pre_tokenizer, this.#clock);
    this.#added = added;
    this.#textOf = textOf;
    const later = rules.filter(({ normalized }) => normalized);
    this.#raw = new AddedTokens(rules.filter(({ normalized }) => !normalized));
    startClock(this.#clock, 0);
    this.#normalized = later.length === 0 ? undefined : new AddedTokens(later, (content) => this.#normal(content));
    this.#all = new AddedTokens(rules);
  }

  /** @param frame whether to add the tokens that the tokenizer puts around a whole text. */
  encode(pieces: readonly TextPiece[], frame: boolean): Ids {
    const text = pieces.map((piece) => piece.text).join("");
    startClock(this.#clock, text.length);
    const ids = pieces.every(({ special }) => special) ? this.#parsed(text) : this.#mixed(text, pieces);
    if (!frame) return ids;
    const { before, after } = (this.#frame ??= this.#findFrame());
    return [...before, ...ids, ...after];
  }

  /** The ids of a text in which the text of an added token always becomes that token. */
  #parsed(text: string): Ids {
    const ids: (number | undefined)[] = [];
    const whole = (part: string) => [{ start: 0, end: part.length }];
    const put = (sections: readonly Section[], ofText: (text: string) => void) => {
      for (const section of sections) {
        if ("token" in section) ids.push(section.token.id);
        else ofText(section.text);
      }
    };
    const plain = (part: string) => append(ids, this.#ofText(part));
    put(this.#raw.split(text, whole(text)), (part) => {
      const normal = this.#normal(part);
      if (this.#normalized === undefined) plain(normal);
      else put(this.#normalized.split(normal, whole(normal)), plain);
    });
    return ids;
  }

  /** The ids of a text with pieces that must not contain added tokens. */
  #mixed(text: string, pieces: readonly TextPiece[]): Ids {
    let end = 0;
    const ranges = pieces.map((piece) => ({ start: end, end: (end += piece.text.length), special: piece.special })).filter(({ special }) => special);
    const ids: (number | undefined)[] = [];
    for (const section of this.#all.split(text, ranges)) {
      if ("token" in section) ids.push(section.token.id);
      else for (const id of this.#ofText(this.#normal(section.text))) append(ids, id !== undefined && this.#added.has(id) ? this.#spelt(id) : [id]);
    }
    return ids;
  }

  #normal(text: string): string {
    return this.#tokenizer.normalizer === null ? text : this.#tokenizer.normalizer(text);
  }

  #ofText(text: string): Ids {
    return text === "" ? [] : this.#known.of(text, () => this.#plain.encode(text, { add_special_tokens: false }).ids);
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
 * Gives the library these tables. Its own are a map of all tokens and one of all merges, with pairs in JSON as keys. To make them takes
 * longer than to read the file.
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
