/** How many of a session's tokens are a text's, however the text is cut into tokens. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { spliceOf } from "../../lib/model/session/splice.ts";
import { TokenRanges } from "../../lib/model/session/token-ranges.ts";

/** Tokens of one to three of the letters a and b; the added token A is spelt `ab`, too, and N has no text. */
const texts = ["a", "b", "aa", "ab", "ba", "bb", "aab", "bab", "abb", "ab", ""];
const [A, N] = [9, 10];
const bytes = {
  bytesOf: (id: number) => (id === N ? undefined : new TextEncoder().encode(texts[id])),
  isAdded: (id: number) => id === A,
};
const textOf = (tokens: readonly number[]) => tokens.map((id) => texts[id]).join("");
const [always, never] = [() => true, () => false];

describe("tokens that are kept", () => {
  test("stand for the same text, are as many as possible, and are equal where nothing was generated but plain text", () => {
    const tokens = fc.array(fc.integer({ min: 0, max: A }), { maxLength: 12 });
    fc.assert(
      fc.property(tokens, tokens, fc.integer({ min: 0, max: 12 }), (had, wanted, from) => {
        const generated = (position: number) => position >= from;
        const { kept, covered } = spliceOf(had, wanted, bytes, generated);
        expect(textOf(had.slice(0, kept))).toBe(textOf(wanted.slice(0, covered)));
        // The greatest allowed number, found by trying all places.
        let most = 0;
        for (let i = 0; i <= had.length; i++) {
          for (let j = 0; j <= wanted.length; j++) if (allowed(had.slice(0, i), wanted.slice(0, j), generated)) most = Math.max(most, i);
        }
        expect(kept).toBe(most);
      }),
      { numRuns: 3000, seed: 20260 },
    );
  });

  /** Whether tokens may stand for others, by the definition: character by character. */
  function allowed(had: readonly number[], wanted: readonly number[], generated: (position: number) => boolean): boolean {
    const spans = (tokens: readonly number[]) => {
      let at = 0;
      return tokens.map((id, index) => ({ id, index, start: at, end: (at += texts[id]!.length) }));
    };
    if (textOf(had) !== textOf(wanted)) return false;
    const [ours, theirs] = [spans(had), spans(wanted)];
    const same = (one: { id: number; start: number }, others: readonly { id: number; start: number }[]) => others.some(({ id, start }) => id === one.id && start === one.start);
    const strange = ours.filter((one) => one.id === A && !generated(one.index) && !same(one, theirs));
    const missing = theirs.filter((one) => one.id === A).filter((one) => {
      if (same(one, ours)) return false;
      return one.id === N || ours.some(({ index, start, end }) => start < one.end && end > one.start && start <= one.start && !generated(index));
    });
    return strange.length + missing.length === 0;
  }

  test.each<[string, readonly number[], readonly number[], (position: number) => boolean, [number, number]]>([
    ["nothing", [], [], never, [0, 0]],
    ["all, before more", [0, 1], [0, 1, 2], never, [2, 2]],
    ["a beginning, before less", [0, 1, 2], [0, 1], never, [2, 2]],
    ["another cut of the same text", [0, 1, 2], [3, 2], never, [3, 2]],
    ["as far as both cuts end", [0, 2], [2, 1], never, [0, 0]],
    ["text before a difference", [0, 1, 0, 0], [3, 0, 1], never, [3, 2]],
    ["a control token only where the text has one", [A, 0], [3, 0], never, [0, 0]],
    ["text only where the text has no control token", [3, 0], [A, 0], never, [0, 0]],
    ["a control token that was generated", [A, 0], [3, 0], always, [2, 2]],
    ["text that was generated in place of a control token", [0, 1, 0], [A, 0], always, [3, 2]],
    ["the same id without text", [N, 0], [N, 0], never, [2, 2]],
    ["no other id without text", [N, 0], [0], always, [0, 0]],
  ])("%s", (_, had, wanted, generated, [kept, covered]) => {
    expect(spliceOf(had, wanted, bytes, generated)).toEqual({ kept, covered });
  });

  test("take time in proportion to the text", () => {
    const had = Array.from({ length: 200_000 }, (_, i) => i % 2);
    const wanted = Array.from({ length: 100_000 }, () => 3);
    expect(spliceOf(had, wanted, bytes, never)).toEqual({ kept: 200_000, covered: 100_000 });
  }, 10_000);
});

test("ranges of tokens are those of their positions", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.record({ skip: fc.integer({ min: 0, max: 3 }), add: fc.integer({ min: 1, max: 4 }) }), fc.record({ cut: fc.integer({ min: 0, max: 8 }) })), { maxLength: 12 }), (steps) => {
      const ranges = new TokenRanges();
      const positions = new Set<number>();
      let length = 0;
      for (const step of steps) {
        if ("cut" in step) {
          length = Math.max(0, length - step.cut);
          ranges.cut(length);
          for (const position of positions) if (position >= length) positions.delete(position);
          continue;
        }
        length += step.skip;
        for (let i = 0; i < step.add; i++) {
          ranges.push(length);
          positions.add(length++);
        }
      }
      for (const one of [ranges, new TokenRanges(ranges.bounds)]) {
        expect(one.count).toBe(positions.size);
        for (let position = 0; position <= length + 1; position++) expect(one.has(position)).toBe(positions.has(position));
        expect(one.bounds.every((bound, i) => i === 0 || bound > one.bounds[i - 1]!)).toBe(true);
      }
    }),
    { numRuns: 1000, seed: 20260 },
  );
});
