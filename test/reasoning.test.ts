/** Where thoughts begin and end, in tokens. */
import { describe, expect, test } from "bun:test";
import { Reasoning } from "../lib/model/constraints/reasoning.ts";

const words = ["a", "<", "think", ">", "</", "</think>", ">{", ">\n\n", "<think>", "k></think", "/thin", "</thi", "nk>"];
const textOf = (token: number): string => words[token]!;
const ids = (...list: readonly string[]): number[] => list.map((word) => words.indexOf(word));
const made = (open: boolean, most = Infinity, endTokens = ids("</", "think", ">")) => new Reasoning({ tags: { begin: "<think>", end: "</think>" }, textOf, endTokens }, open, most);

/** Whether each token is inside the thoughts, and whether the one after the last is. */
function insides(reasoning: Reasoning, tokens: readonly number[]): string {
  const found = tokens.map((token) => {
    const inside = reasoning.inside;
    reasoning.next(token);
    return inside;
  });
  return [...found, reasoning.inside].map((inside) => (inside ? "1" : "0")).join("");
}

describe("thoughts", () => {
  test("end with the tag, however it is cut", () => {
    expect(insides(made(true), ids("a", "</think>", "a"))).toBe("1100");
    expect(insides(made(true), ids("a", "</", "think", ">", "a"))).toBe("111100");
    expect(insides(made(true), ids("</thi", "nk>", "a"))).toBe("1100");
    expect(insides(made(true), ids("<", "/thin", "k></think", "a"))).toBe("11100");
    expect(insides(made(true), ids("</", "think", "a", ">"))).toBe("11111");
    expect(insides(made(true), ids("</", "</", "think", ">"))).toBe("11110");
    expect(insides(made(false), ids("a", "</think>"))).toBe("000");
  });

  test("begin with the tag where the prompt did not begin them", () => {
    expect(insides(made(false), ids("<think>", "a", "</think>", "a"))).toBe("01100");
    expect(insides(made(false), ids("<", "think", ">", "a"))).toBe("00011");
    expect(insides(made(true), ids("</think>", "<think>", "a"))).toBe("1011");
  });

  test("that are too long end with the tokens of the tag", () => {
    const run = (reasoning: Reasoning, free: readonly number[]): string[] => {
      const tokens: string[] = [];
      for (const token of free) {
        const next = reasoning.forced ?? token;
        tokens.push(words[next]!);
        reasoning.next(next);
      }
      return tokens;
    };
    const a = ids("a", "a", "a", "a", "a", "a", "a");
    expect(run(made(true, 2), a)).toEqual(["a", "a", "</", "think", ">", "a", "a"]);
    expect(run(made(true, 0), a)).toEqual(["</", "think", ">", "a", "a", "a", "a"]);
    expect(run(made(true, 1, ids("</think>")), a)).toEqual(["a", "</think>", "a", "a", "a", "a", "a"]);
    // The second block of thoughts in an answer has a budget of its own.
    expect(run(made(false, 1), ids("a", "<think>", "a", "a", "a", "a", "a"))).toEqual(["a", "<think>", "a", "</", "think", ">", "a"]);
    // A tag that has begun when the budget ends is not completed by the beginning of another one.
    expect(run(made(true, 1), ids("</", "a", "a", "a", "a"))).toEqual(["</", "</", "think", ">", "a"]);
  });

  test("that end within a token with text after it are known before", () => {
    const reasoning = made(true);
    for (const token of ids("</", "think")) reasoning.next(token);
    expect(ids(">", ">{", ">\n\n", "a").map((token) => reasoning.endsWithText(token))).toEqual([false, true, false, false]);
    expect(made(false).endsWithText(words.indexOf(">{"))).toBe(false);
  });

  test("are looked ahead at by a copy", () => {
    const reasoning = made(true, 3);
    reasoning.next(words.indexOf("</"));
    const copy = reasoning.copy();
    for (const token of ids("think", ">")) copy.next(token);
    expect([copy.inside, reasoning.inside, reasoning.forced]).toEqual([false, true, undefined]);
    reasoning.next(words.indexOf("a"));
    reasoning.next(words.indexOf("a"));
    expect(reasoning.copy().forced).toBe(words.indexOf("</"));
  });
});
