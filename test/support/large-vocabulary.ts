/** A vocabulary of byte-level BPE as large as those of released models, of random words in several scripts. */
import { byteCharacters } from "../../lib/model/text/byte-level.ts";
import { Random } from "./random.ts";

const blankOrNot = (random: Random, word: string): string => (random.below(2) === 0 ? ` ${word}` : word);
const letters = (random: Random, from: number, count: number, length: number): string => String.fromCodePoint(...Array.from({ length }, () => from + random.below(count)));
const signs = "{}[]()<>:;,.\"'=+-*/\\|&%$#@!?_~`^ \n\t0123456789";
const frequent = "etaoinshrdlucmfwypvbgkqjxz";

/** Kinds of tokens, by their share in a hundred. */
const kinds: readonly [number, (random: Random) => string][] = [
  [55, (random) => blankOrNot(random, Array.from({ length: 2 + random.below(9) }, () => frequent[Math.min(random.below(26), random.below(26))]!).join(""))],
  [20, (random) => letters(random, 0x4e00, 0x5000, 1 + random.below(4))],
  [15, (random) => blankOrNot(random, letters(random, 0x430, 32, 2 + random.below(7)))],
  [10, (random) => Array.from({ length: 1 + random.below(5) }, () => signs[random.below(signs.length)]!).join("")],
];

const ofJson = ['{"', '"}', '":', '",', '": "', '": ', '", "', "},", "}]", "[{", "\n\n", "\n  ", "true", "false", "null", " true", " false", " null"];

/** Tokens in the alphabet of byte-level BPE; the first 256 are the bytes. */
export function largeVocabulary(size: number, seed = 1): string[] {
  const random = new Random(seed);
  const written = (text: string): string => [...new TextEncoder().encode(text)].map((byte) => byteCharacters[byte]!).join("");
  const found = new Set(byteCharacters);
  for (const text of [...ofJson, ...Array.from({ length: 1000 }, (_, i) => String(i))]) found.add(written(text));
  while (found.size < size) {
    let share = random.below(100);
    const [, make] = kinds.find(([part]) => (share -= part) < 0)!;
    found.add(written(make(random)));
  }
  return [...found].slice(0, size);
}

/** A vocabulary in which every token after the bytes is made by one merge, as in training, and the merges in order. */
export function largeMerges(size: number, seed = 1): { readonly words: readonly string[]; readonly merges: readonly (readonly [string, string])[] } {
  const words = new Set(byteCharacters);
  const merges: [string, string][] = [];
  for (const word of largeVocabulary(size, seed)) {
    // Longer words are merged from the left, a character at a time.
    for (let end = 2; end <= word.length && words.size < size; end++) {
      const token = word.slice(0, end);
      if (words.has(token)) continue;
      words.add(token);
      merges.push([word.slice(0, end - 1), word[end - 1]!]);
    }
  }
  return { words: [...words], merges };
}
