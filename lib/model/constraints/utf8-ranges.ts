/** Ranges of code points as sequences of ranges of bytes in UTF-8. */
import type { Points } from "./automaton.ts";

/** A range of bytes for each byte of a character. */
export type ByteRanges = readonly (readonly [number, number])[];

/** The last code points of one, two, three and four bytes. */
const lastOfLength = [0x7f, 0x7ff, 0xffff, 0x10ffff] as const;

function encoded(point: number): number[] {
  return [...new TextEncoder().encode(String.fromCodePoint(point))];
}

/** The bytes of code points, none of which is a surrogate. Each character has one sequence. */
export function byteRangesOf(points: Points): ByteRanges[] {
  const found: ByteRanges[] = [];
  const split = (from: number, to: number): void => {
    for (const last of lastOfLength) {
      if (from <= last && last < to) {
        split(from, last);
        split(last + 1, to);
        return;
      }
    }
    if (to > 0x7f) {
      // All bytes but the first are whole ranges; otherwise the range is split so that they are.
      for (const bits of [6, 12, 18]) {
        const mask = (1 << bits) - 1;
        if ((from & ~mask) === (to & ~mask)) break;
        if ((from & mask) !== 0) {
          split(from, from | mask);
          split((from | mask) + 1, to);
          return;
        }
        if ((to & mask) !== mask) {
          split(from, (to & ~mask) - 1);
          split(to & ~mask, to);
          return;
        }
      }
    }
    const [first, last] = [encoded(from), encoded(to)];
    found.push(first.map((byte, i) => [byte, last[i]!] as const));
  };
  for (const [from, to] of points) split(from, to);
  return found;
}
