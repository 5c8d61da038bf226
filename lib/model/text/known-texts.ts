/** The most characters of all texts together, and the fewest of one. */
const mostCharacters = 2 ** 21;
const leastCharacters = 64;

/** Results for the texts that came last: each turn of a conversation encodes all messages before it again. */
export class KnownTexts<Result> {
  /** By text, the one used least recently first. */
  readonly #known = new Map<string, { readonly text: string; readonly result: Result }>();
  #characters = 0;

  /** The result for a text: the earlier one, or that of `make`. */
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
