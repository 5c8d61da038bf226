/** The most characters of all texts together, and the fewest of a single text. */
const mostCharacters = 2 ** 21;
const leastCharacters = 64;

/** Results for the most recent texts, since each turn of a conversation encodes all earlier messages again. */
export class KnownTexts<Result> {
  /** The results by text, the least recently used first. */
  readonly #known = new Map<string, { readonly text: string; readonly result: Result }>();
  #characters = 0;

  /** The result for a text: the earlier one, or the result of `make`. */
  of(text: string, make: () => Result): Result {
    if (text.length < leastCharacters || text.length > mostCharacters) return make();
    const known = this.#known.get(text);
    const one = known ?? { text: copyOf(text), result: make() };
    if (known === undefined) this.#characters += text.length;
    else this.#known.delete(text);
    this.#known.set(one.text, one);
    for (const [oldest] of this.#known) {
      if (this.#characters <= mostCharacters) break;
      this.#known.delete(oldest);
      this.#characters -= oldest.length;
    }
    return one.result;
  }
}

/** A copy: a part of a longer string would keep the memory of the whole. */
function copyOf(text: string): string {
  return Buffer.from(text, "utf16le").toString("utf16le");
}
