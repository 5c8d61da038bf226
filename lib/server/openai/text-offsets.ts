/** Where the tokens of an answer begin in its text. */
import { tokenBytes } from "../../model/text/tokenizer.ts";
import type { Tokenizer } from "../../model/text/tokenizer.ts";

const none = new Uint8Array();

/** Counts characters (code points), as Python does. A token that begins within a character has the offset of that character. */
export class TextOffsets {
  readonly #tokenizer: Tokenizer;
  #characters = 0;
  /** The bytes of a character that has begun. */
  #begun = none;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** The offset of the next token. */
  next(token: number): number {
    // Control tokens are not in the text.
    const bytes = this.#tokenizer.isSpecial(token) ? none : tokenBytes(this.#tokenizer).bytesOf(token) ?? none;
    // A character that is not continued is a U+FFFD in the text.
    const broken = this.#begun.length > 0 && bytes.length > 0 && lengthOf([...this.#begun, bytes[0]!]) > 1;
    const offset = this.#characters + (broken ? 1 : 0);
    const all = Uint8Array.of(...this.#begun, ...bytes);
    const whole = all.length - begunIn(all);
    this.#characters += lengthOf(all.subarray(0, whole));
    this.#begun = all.slice(whole);
    return offset;
  }
}

function lengthOf(bytes: Iterable<number>): number {
  return [...new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes))].length;
}

/** How many bytes at the end belong to a character that has begun and may continue. */
function begunIn(bytes: Uint8Array): number {
  for (let count = Math.min(3, bytes.length); count > 0; count--) {
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(-count), { stream: true });
    if (text === "") return count;
  }
  return 0;
}
