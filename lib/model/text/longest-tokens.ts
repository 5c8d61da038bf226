/**
 * How many tokens a text has at least, known without encoding it: merges make no tokens but those of the vocabulary. (Tokenizers with
 * others are refused.)
 */
import { byteCharacters } from "./byte-level.ts";
import type { AddedToken } from "./added-tokens.ts";
import type { TextTable } from "./text-table.ts";

/** Characters of a part. */
const partCharacters = 2 ** 14;

/** For each byte, the most bytes of a token that has it. */
export class LongestTokens {
  /** The most bytes of any token. */
  readonly most: number;
  /** By byte, one divided by that number: the sum over a token's bytes is at most 1, so the sum over a text's bytes at most its tokens. */
  readonly #shares: Float64Array;

  /** @param rules added tokens: a word that is the text of one can become it. */
  constructor(tokens: TextTable, rules: readonly AddedToken[]) {
    const longest = tokens.longestWith(byteCharacters.map((character) => character.charCodeAt(0)));
    const byteOf = new Map(byteCharacters.map((character, byte) => [character, byte]));
    for (const { content } of rules) {
      for (const character of content) {
        const byte = byteOf.get(character);
        if (byte !== undefined) longest[byte] = Math.max(longest[byte]!, content.length);
      }
    }
    this.#shares = Float64Array.from(longest, (bytes) => 1 / Math.max(1, bytes));
    this.most = longest.reduce((most, bytes) => Math.max(most, bytes), 1);
  }

  /** Whether a text has more tokens for sure. */
  exceeds(text: string, room: number): boolean {
    if (text.length <= room && Buffer.byteLength(text) <= room) return false;
    let sum = 0;
    for (let start = 0, end; start < text.length; start = end) {
      end = start + partCharacters;
      if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end++; // a pair of surrogates stays together
      const bytes = Buffer.from(text.slice(start, end));
      for (let i = 0; i < bytes.length; i++) sum += this.#shares[bytes[i]!]!;
      if (sum > room + 1) return true; // sums of this size are exact to far less than 1
    }
    return false;
  }
}
