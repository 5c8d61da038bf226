/** Follows where the thoughts of an answer begin and end, token by token. */
import type { Tags } from "../text/formats/answer-format.ts";

/** The tags of thoughts, and the tokens of a model. */
export interface ReasoningText {
  readonly tags: Tags;
  /** The text of a token, control tokens included. */
  textOf(token: number): string;
  /** The tokens of the tag that ends thoughts. */
  readonly endTokens: readonly number[];
}

export class Reasoning {
  readonly #text: ReasoningText;
  readonly #most: number;
  #inside: boolean;
  /** The last characters, in which a tag may have begun. */
  #tail = "";
  #count = 0;
  /** How many tokens of the end tag have been forced. */
  #forced = 0;

  /**
   * @param open whether the answer begins inside thoughts.
   * @param most the largest number of tokens in thoughts.
   */
  constructor(text: ReasoningText, open: boolean, most: number) {
    this.#text = text;
    this.#inside = open;
    this.#most = most;
  }

  /** Whether the next token is part of thoughts. */
  get inside(): boolean {
    return this.#inside;
  }

  /** The next token, if it is part of the tag that ends thoughts that are too long. */
  get forced(): number | undefined {
    return this.#inside && this.#count >= this.#most ? this.#text.endTokens[this.#forced] : undefined;
  }

  /** Whether a token would end thoughts and continue with more than whitespace. */
  endsWithText(token: number): boolean {
    if (!this.#inside) return false;
    const { tags: { end }, textOf } = this.#text;
    const text = this.#tail + textOf(token);
    const found = text.lastIndexOf(end);
    return found >= 0 && /\S/.test(text.slice(found + end.length));
  }

  /** Takes the next token. */
  next(token: number): void {
    const { tags, textOf } = this.#text;
    if (this.forced !== undefined) this.#forced = token === this.forced ? this.#forced + 1 : 0;
    const tag = this.#inside ? tags.end : tags.begin;
    const text = this.#tail + textOf(token);
    if (this.#inside) this.#count++;
    const found = text.lastIndexOf(tag);
    if (found < 0) {
      this.#tail = text.slice(-(tag.length - 1));
      return;
    }
    this.#inside = !this.#inside;
    this.#tail = text.slice(found + tag.length).slice(-(tag.length - 1));
    this.#count = 0;
    this.#forced = 0;
  }

  /** A copy at this place, to look ahead. */
  copy(): Reasoning {
    const other = new Reasoning(this.#text, this.#inside, this.#most);
    other.#tail = this.#tail;
    other.#count = this.#count;
    other.#forced = this.#forced;
    return other;
  }
}
