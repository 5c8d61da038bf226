/**
 * Finds the first of several stop strings in a text that comes in pieces, and returns the text before it. Text that may be
 * the start of a stop string is held back, so returned text never contains a part of the stop string that is found.
 *
 * The stop string that is completed first counts; of those completed by the same character, the one that starts first.
 */
export class StopStrings {
  readonly #stops: readonly string[];
  /** The border table of each string (Knuth, Morris, Pratt). */
  readonly #borders: readonly Int32Array[];
  /** For each string, the length of its longest prefix at the end of the text. */
  readonly #matched: Int32Array;
  #held = "";

  /** @param stops non-empty, well-formed strings, so that no piece of a well-formed text is cut within a surrogate pair. */
  constructor(stops: readonly string[]) {
    this.#stops = stops;
    this.#borders = stops.map(bordersOf);
    this.#matched = new Int32Array(stops.length);
  }

  /** The text that is held back. */
  get held(): string {
    return this.#held;
  }

  /**
   * Takes the next piece of the text.
   *
   * @returns text that is certain, and the stop string if one was found; then the text is over.
   */
  push(piece: string): { readonly text: string; readonly found: string | undefined } {
    const text = this.#held + piece;
    for (let at = this.#held.length; at < text.length; at++) {
      let longest: string | undefined;
      for (let s = 0; s < this.#stops.length; s++) {
        const stop = this.#stops[s]!;
        if (this.#advance(s, text[at]!) && stop.length > (longest?.length ?? 0)) longest = stop;
      }
      if (longest === undefined) continue;
      this.#held = "";
      return { text: text.slice(0, at + 1 - longest.length), found: longest };
    }
    const waiting = this.#matched.reduce((most, length) => Math.max(most, length), 0);
    this.#held = text.slice(text.length - waiting);
    return { text: text.slice(0, text.length - waiting), found: undefined };
  }

  /** The text that was held back, when the text ends without a stop string. */
  end(): string {
    const text = this.#held;
    this.#held = "";
    this.#matched.fill(0);
    return text;
  }

  /** Advances the match of one string by a character. Returns whether it is complete. */
  #advance(s: number, character: string): boolean {
    const stop = this.#stops[s]!;
    const borders = this.#borders[s]!;
    let length = this.#matched[s]!;
    while (length > 0 && stop[length] !== character) length = borders[length - 1]!;
    if (stop[length] === character) length++;
    this.#matched[s] = length;
    return length === stop.length;
  }
}

/** For each prefix of a string, the length of the longest shorter prefix with which it ends. */
function bordersOf(stop: string): Int32Array {
  const borders = new Int32Array(stop.length);
  let length = 0;
  for (let i = 1; i < stop.length; i++) {
    while (length > 0 && stop[i] !== stop[length]) length = borders[length - 1]!;
    if (stop[i] === stop[length]) length++;
    borders[i] = length;
  }
  return borders;
}
