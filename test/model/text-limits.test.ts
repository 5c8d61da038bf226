/** Texts with limited room: the same tokens, and no more work than the room is worth. Work is counted, not timed. */
import { afterAll, describe, expect, spyOn, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { BoundsError } from "../../lib/errors.ts";
import { LongWords } from "../../lib/model/text/long-words.ts";
import { withOrderedMarks } from "../../lib/model/text/marks.ts";
import { mostNested, nestsWithin } from "../../lib/model/text/nesting.ts";
import { Tokenizer, encodingAtMost } from "../../lib/model/text/tokenizer.ts";
import { wordsOf } from "../../lib/model/text/word-encoder.ts";
import { thrownBy } from "../support/devices.ts";

const golden = join(import.meta.dir, "../golden/models/qwen3_5-mlx-mixed");
const limits = { vocabSize: 600, eosTokens: [2, 0] };
const folders: string[] = [];
afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

function tokenizerWith(change: (json: Record<string, any>) => void): Tokenizer {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-limits-"));
  folders.push(folder);
  const json = JSON.parse(readFileSync(join(golden, "tokenizer.json"), "utf8")) as Record<string, any>;
  change(json);
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(json));
  return Tokenizer.load(folder, limits)!;
}

/** A limit of as many tokens as a text has is enough, and one fewer is not. */
function expectExact(tokenizer: Tokenizer, text: Parameters<Tokenizer["encode"]>[0], options = {}): void {
  const ids = tokenizer.encode(text, options);
  expect(encodingAtMost(tokenizer, ids.length, () => tokenizer.encode(text, options))).toEqual(ids);
  expect(encodingAtMost(tokenizer, 2 * ids.length + 1, () => tokenizer.encode(text, options))).toEqual(ids);
  if (ids.length === 0) return;
  const error = thrownBy(() => encodingAtMost(tokenizer, ids.length - 1, () => tokenizer.encode(text, options)));
  expect(error).toBeInstanceOf(BoundsError);
  expect(error).toMatchObject({ op: "tokenizer.encode", argument: "text", expected: `a text of at most ${ids.length - 1} tokens`, received: "one of more" });
  expect(tokenizer.encode(text, options)).toEqual(ids);
}

const parts = ["a", "the ", "e\u0301", "\u1fbe\u0308\u0301", "\u1100\u1161\u11a8", "\u212a", "中文", "🏞️", "\ud800", " ".repeat(70), "\n\n", "12", "<|im_end|>", "!?", "a".repeat(300), "\u0301\u0323".repeat(30), "x\r\n"];
const texts = fc.array(fc.constantFrom(...parts), { maxLength: 60 }).map((all) => all.join(""));

describe("a limited room", () => {
  const known = tokenizerWith(() => {});
  const others: [name: string, tokenizer: Tokenizer][] = [
    ["Qwen3.5's kind", known],
    ["long tokens", tokenizerWith(({ model }) => Object.assign(model.vocab, { ["Ġ".repeat(128)]: 590 }))],
    ["merges left out for known words", tokenizerWith((json) => { json["model"].ignore_merges = true; json["model"].vocab["a".repeat(300)] = 591; })],
    ["an added token that takes blanks", tokenizerWith(({ added_tokens: added }) => Object.assign(added[2], { lstrip: true, rstrip: true }))],
    ["GPT-2's kind", tokenizerWith((json) => { json["pre_tokenizer"] = { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true }; })],
    ["no normalizer", tokenizerWith((json) => { json["normalizer"] = null; })],
    ["another normalizer", tokenizerWith((json) => { json["normalizer"] = { type: "Replace", pattern: { String: "a" }, content: "" }; })],
    ["digits cut first", tokenizerWith((json) => { json["pre_tokenizer"].pretokenizers.unshift({ type: "Digits", individual_digits: true }); })],
    ["an unknown expression", tokenizerWith((json) => { json["pre_tokenizer"].pretokenizers[0].pattern = { Regex: "\\s+|\\S+" }; })],
    ["unknown characters in a row become one token", tokenizerWith(({ model }) => Object.assign(model, { fuse_unk: true, unk_token: "a" }))],
    ["text removed", tokenizerWith((json) => { json["pre_tokenizer"].pretokenizers.unshift({ type: "Split", pattern: { Regex: "\\p{N}" }, behavior: "Removed", invert: false }); })],
  ];
  test.each(others)("is exact: %s", (_, tokenizer) => {
    fc.assert(fc.property(texts, (text) => expectExact(tokenizer, text)), { numRuns: 40 });
    fc.assert(fc.property(texts, (text) => expectExact(tokenizer, text, { specialTokens: "text", addSpecialTokens: true })), { numRuns: 40 });
    fc.assert(fc.property(texts, texts, (a, b) => expectExact(tokenizer, [{ text: a, special: true }, { text: b, special: false }])), { numRuns: 40 });
  });

  test("a long text of few tokens fits", () => {
    const removing = others.at(-1)![1];
    expect(encodingAtMost(removing, 1, () => removing.encode(`${"7".repeat(5000)}a`))).toEqual(removing.encode("a"));
    const blanks = others[3]![1];
    expect(encodingAtMost(blanks, 1, () => blanks.encode(`${" ".repeat(5000)}<|im_end|>`)).length).toBe(1);
  });

  test("it ends with the work that was limited, and an inner one with its own", () => {
    expect(thrownBy(() => encodingAtMost(known, 1, () => {
      expect(encodingAtMost(known, 9, () => known.encode("1234")).length).toBe(4);
      return known.encode("1234");
    }))).toBeInstanceOf(BoundsError);
    expect(known.encode("1234").length).toBe(4);
  });

  test("a text is cut into words only as far as it is asked for", () => {
    let searches = 0;
    class Counted extends RegExp {
      override exec(text: string) {
        searches++;
        return super.exec(text);
      }
    }
    const step = Object.assign((all: string | readonly string[]) => [all].flat(), { config: { type: "Split", behavior: "Isolated", pattern: { Regex: "" } }, pattern: new Counted(" ?\\w+", "gu") });
    const words = wordsOf(step, "ab ".repeat(100_000));
    expect((words.next().value as string[]).slice(0, 3)).toEqual(["ab", " ab", " ab"]);
    expect(searches).toBeLessThan(2000);
    words.return();
    expect([...wordsOf(step, "ab,cd ef")].flat()).toEqual(["ab", ",", "cd", " ef"]);
  });
});

describe("the work for a text that is far too long", () => {
  const tokenizer = tokenizerWith(({ model }) => Object.assign(model.vocab, { ["Ġ".repeat(128)]: 590 }));
  test.each([
    ["before it is normalized", "a".repeat(600_000), 0, 0],
    ["before it is merged, by its bytes", "a".repeat(100_000), 1, 0],
    ["before it is merged, by its words", "ab ".repeat(30_000), 1, 0],
    ["when its first word is merged", `${" ".repeat(60_000)}a`.repeat(2), 1, 1],
  ])("it is refused %s", (_, text, normalized, merged) => {
    const normalize = spyOn(String.prototype, "normalize");
    const split = spyOn(LongWords.prototype, "split");
    try {
      expect(thrownBy(() => encodingAtMost(tokenizer, 1000, () => tokenizer.encode(text)))).toBeInstanceOf(BoundsError);
      expect([normalize.mock.contexts.filter((one) => String(one).length > 1000).length, split.mock.calls.length]).toEqual([normalized, merged]);
    } finally {
      normalize.mockRestore();
      split.mockRestore();
    }
  });
});

describe("long words", () => {
  test("have the tokens of merges one by one, and ask for the rank of each pair once", () => {
    const { model } = JSON.parse(readFileSync(join(golden, "tokenizer.json"), "utf8")) as { model: { merges: [string, string][] } };
    const ranks = new Map(model.merges.map((pair, i) => [JSON.stringify(pair), i]));
    const asked: string[] = [];
    const long = new LongWords({ get: (pair) => (asked.push(pair), ranks.get(pair)) });
    const slowly = (word: string): string[] => {
      const found = [...word];
      for (;;) {
        let [best, at] = [Infinity, -1];
        for (let i = 0; i + 1 < found.length; i++) {
          const rank = ranks.get(JSON.stringify([found[i], found[i + 1]])) ?? Infinity;
          if (rank < best) [best, at] = [rank, i];
        }
        if (at < 0) return found;
        found.splice(at, 2, found[at]! + found[at + 1]!);
      }
    };
    const letters = [...new Set(model.merges.flat().join(""))].slice(0, 12);
    fc.assert(fc.property(fc.array(fc.constantFrom(...letters), { maxLength: 400 }), (word) => expect(long.split(word.join(""))).toEqual(slowly(word.join("")))), { numRuns: 60 });
    expect(new Set(asked).size).toBe(asked.length);
    expect(long.split("")).toEqual([]);
  });
});

describe("long runs of combining marks", () => {
  const marks = fc.array(fc.constantFrom("\u0301", "\u0323", "\u0345", "\u0334", "\u034f", "\u0344", "\u0f73", "\u0f71", "\u302e", "\u0903", "\u05b0", "\u{1d165}", "\u{1e130}"), { minLength: 34, maxLength: 120 });
  test("get into the order in which normalization leaves them as they are, and have the same normal forms", () => {
    fc.assert(fc.property(marks, (run) => {
      const text = `e${run.join("")}x`;
      const ordered = withOrderedMarks(text);
      for (const form of ["NFC", "NFD", "NFKC", "NFKD"]) expect(ordered.normalize(form)).toBe(text.normalize(form));
      expect(ordered).toBe(text.normalize("NFD"));
    }), { numRuns: 200 });
  });

  test("other texts stay as they are", () => {
    for (const text of ["", "abc", "e\u0301\u0323", "\u0301\u0323".repeat(16), "中\u0301".repeat(100)]) expect(withOrderedMarks(text)).toBe(text);
  });
});

test("how deep a value nests", () => {
  const nested = (depth: number): unknown => JSON.parse("[".repeat(depth) + "]".repeat(depth));
  expect([nested(1), nested(mostNested), 5, null, "a", { a: [nested(mostNested - 2)] }].map(nestsWithin)).toEqual([true, true, true, true, true, true]);
  const circle: Record<string, unknown> = { a: 1 };
  circle["b"] = [circle, circle];
  expect([nested(mostNested + 1), nested(100_000), { a: [nested(mostNested - 1)] }, circle].map(nestsWithin)).toEqual([false, false, false, false]);
});
