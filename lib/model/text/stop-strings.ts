/**
 * Finds the first of some strings in a text that comes in pieces, and gives out what is before it. Text that may turn out
 * to be the beginning of one waits: what was given out never has a part of a stop string that is found.
 *
 * Of several that the text has, the one counts that is complete first; of those that a character completes together, the
 * one that begins first.
 */
export class StopStrings {
  readonly #stops: readonly string[];
  /** Per string, as Knuth, Morris and Pratt have it: how much of its beginning ends at each of its characters. */
  readonly #borders: readonly Int32Array[];
  /** How much of each string's beginning the text ends with. */
  readonly #matched: Int32Array;
  #held = "";

  /** @param stops none empty, all well-formed: then no piece of a well-formed text is cut within a surrogate pair. */
  constructor(stops: readonly string[]) {
    this.#stops = stops;
    this.#borders = stops.map(bordersOf);
    this.#matched = new Int32Array(stops.length);
  }

  /** How many characters wait. */
  get held(): number {
    return this.#held.length;
  }

  /**
   * Takes the next piece of the text.
   *
   * @returns what can be given out, and which string was found, if one was: then the text is over.
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

  /** What waited: the text ends without a stop string. */
  end(): string {
    const text = this.#held;
    this.#held = "";
    this.#matched.fill(0);
    return text;
  }

  /** One more character for one string; whether it is complete. */
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

/** For each beginning of a string, the length of the longest shorter one that it ends with. */
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
