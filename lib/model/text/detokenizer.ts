/**
 * Text of tokens as they come. A token of byte-level BPE is a run of bytes, which may begin or end within a character:
 * such bytes wait for those that complete them. What {@link push} returned is never taken back, and all of it together is
 * the text of all tokens together.
 */
export class Detokenizer {
  readonly #bytesOf: (id: number) => Uint8Array | undefined;
  #decoder = makeDecoder();

  /** @param bytesOf the bytes of a token; undefined for one that has no text. */
  constructor(bytesOf: (id: number) => Uint8Array | undefined) {
    this.#bytesOf = bytesOf;
  }

  /** The text that a token completes: whole characters, none where the token ends within its first. Never throws. */
  push(token: number): string {
    const bytes = this.#bytesOf(token);
    return bytes === undefined ? "" : this.#decoder.decode(bytes, { stream: true });
  }

  /** The rest: U+FFFD for a character that was not completed. Tokens pushed afterwards begin a text of their own. */
  end(): string {
    const text = this.#decoder.decode();
    this.#decoder = makeDecoder();
    return text;
  }
}

/** WHATWG's decoder: each maximal part of an ill-formed sequence becomes one U+FFFD. A byte order mark is text. */
function makeDecoder(): TextDecoder {
  return new TextDecoder("utf-8", { ignoreBOM: true });
}
