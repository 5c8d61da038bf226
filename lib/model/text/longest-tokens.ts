/**
 * The least number of tokens that a text has, found without encoding it: merges make only tokens of the vocabulary. (Tokenizers with
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
  /** By byte, 1 divided by that number: the sum over a token's bytes is at most 1, so a text's sum is at most its number of tokens. */
  readonly #shares: Float64Array;

  /** @param rules added tokens: a word that is an added token's text can become that token. */
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

  /** Whether a text certainly has more than `room` tokens. */
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
