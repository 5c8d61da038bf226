import { asInteger } from "../../arguments/checks.ts";

/**
 * Decodes tokens one by one. A token of byte-level BPE is a run of bytes that may begin or end within a character; partial
 * characters wait for the tokens that complete them. Text that {@link push} returned never changes, and all returned texts
 * together are the text of all tokens.
 */
export class Detokenizer {
  readonly #bytesOf: (id: number) => Uint8Array | undefined;
  #decoder = makeDecoder();

  /** @param bytesOf the bytes of a token; undefined for a token without text. */
  constructor(bytesOf: (id: number) => Uint8Array | undefined) {
    this.#bytesOf = bytesOf;
  }

  /**
   * The whole characters that a token completes; possibly none, such as for a token without text or beyond the vocabulary.
   *
   * @throws {GatedDeltaError} for a value that is not a token id.
   */
  push(token: number): string {
    const bytes = this.#bytesOf(asInteger("detokenizer.push", "token", token, 0, 2 ** 32 - 1));
    return bytes === undefined ? "" : this.#decoder.decode(bytes, { stream: true });
  }

  /** The rest: U+FFFD for an incomplete character. Tokens pushed afterwards begin a new text. */
  end(): string {
    const text = this.#decoder.decode();
    this.#decoder = makeDecoder();
    return text;
  }
}

/** WHATWG's decoder: each maximal part of an ill-formed sequence becomes one U+FFFD. A byte order mark counts as text. */
function makeDecoder(): TextDecoder {
  return new TextDecoder("utf-8", { ignoreBOM: true });
}
