/** Kept results of texts: which ones are kept, and the memory that they take. */
import { expect, test } from "bun:test";
import { KnownTexts } from "../../lib/model/text/known-texts.ts";

const textOf = (n: number, length: number) => `${n}:`.padEnd(length, "x");

test("a text's result is made once while it was used not long ago, and never for short or very long texts", () => {
  const known = new KnownTexts<number>();
  let made = 0;
  const get = (text: string) => known.of(text, () => made++);
  for (const [text, results] of [[textOf(1, 64), [0, 0, 0]], [textOf(2, 63), [1, 2]], ["a\ud800".repeat(50), [3, 3]], ["a\ufffd".repeat(50), [4, 4]], [textOf(3, 2 ** 21 + 1), [5, 6]]] as const) {
    for (const result of results) expect(get(text)).toBe(result);
  }
  // There is room for four of the five texts; the first was used after the second.
  const long = [1, 2, 3, 4, 5].map((n) => textOf(n, 2 ** 19));
  const first = long.slice(0, 3).map(get);
  expect(get(long[0]!)).toBe(first[0]!);
  long.slice(3).forEach(get);
  expect([get(long[2]!), get(long[0]!)]).toEqual([first[2]!, first[0]!]);
  expect(get(long[1]!)).not.toBe(first[1]!);
});

test("an error is not kept", () => {
  const known = new KnownTexts<number>();
  const text = textOf(1, 100);
  expect(() => known.of(text, () => { throw new Error("no"); })).toThrow("no");
  expect(known.of(text, () => 1)).toBe(1);
});

test("parts of long texts do not keep the whole texts", () => {
  const known = new KnownTexts<number>();
  const before = process.memoryUsage().rss;
  for (let i = 0; i < 300; i++) known.of(`${i}${Buffer.alloc(2 ** 21, 65 + (i % 20)).toString("latin1")}`.slice(0, 100), () => i);
  Bun.gc(true);
  expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(300);
});
