import { expect, test } from "bun:test";
import fc from "fast-check";
import { NgramDrafter } from "../../lib/model/ngram-drafter.ts";
import { Random } from "../support/random.ts";

/** The default settings of generations. */
const usual = { longest: 4, shortest: 2, window: 32768 };

/** The continuation of the latest earlier occurrence of the last n tokens, for the largest n that has one. */
function plainDraft(tokens: readonly number[], longest: number, shortest: number, most: number): number[] {
  for (let n = longest; n >= shortest; n--) {
    if (tokens.length <= n) continue;
    const last = tokens.slice(-n);
    for (let from = tokens.length - 1; from >= n; from--) {
      if (!last.every((token, i) => tokens[from - n + i] === token)) continue;
      const all = tokens.slice();
      for (let i = 0; i < most; i++) all.push(all[from + i]!);
      return all.slice(tokens.length);
    }
  }
  return [];
}

test("drafts are those of the definition while the window holds the sequence", () => {
  const tokens = fc.array(fc.nat({ max: 3 }), { maxLength: 300 });
  fc.assert(
    fc.property(tokens, fc.integer({ min: 1, max: 3 }), fc.nat({ max: 3 }), fc.nat({ max: 9 }), (sequence, shortest, more, most) => {
      const longest = shortest + more;
      const drafter = new NgramDrafter({ longest, shortest, window: 512 });
      drafter.extend(sequence);
      expect(drafter.length).toBe(sequence.length);
      expect(drafter.draft(most)).toEqual(plainDraft(sequence, longest, shortest, most));
    }),
    { numRuns: 1500, seed: 20260 },
  );
});

test("it finds what a text of few tokens repeats, and what repeats itself", () => {
  const drafter = new NgramDrafter(usual);
  drafter.extend([5, 6, 7, 8, 9, 1, 2, 5, 6]);
  expect(drafter.draft(3)).toEqual([7, 8, 9]);
  drafter.extend([1, 2, 3, 1, 2, 3, 1]);
  expect(drafter.draft(7)).toEqual([2, 3, 1, 2, 3, 1, 2]);
  expect(drafter.draft(0)).toEqual([]);
  drafter.push(100);
  expect(drafter.draft(5)).toEqual([]);
  expect(new NgramDrafter(usual).draft(5)).toEqual([]);
});

test("what is older than the window is neither found nor kept", () => {
  const drafter = new NgramDrafter({ ...usual, window: 256 });
  const random = new Random(1);
  drafter.extend([1, 2, 3, 4]);
  drafter.extend(Array.from({ length: 200 }, () => 1000 + random.below(1e6)));
  drafter.extend([1, 2]);
  expect(drafter.draft(2)).toEqual([3, 4]);
  drafter.extend([0, ...Array.from({ length: 300 }, () => 1000 + random.below(1e6)), 2, 3]);
  expect(drafter.draft(2)).toEqual([]);
  for (let i = 0; i < 100000; i++) drafter.push(i % 1000);
  expect(drafter.draft(3)).toEqual([]); // a thousand tokens ago
  for (let i = 0; i < 1000; i++) drafter.push(i % 200);
  expect(drafter.draft(3)).toEqual([0, 1, 2]);
});
