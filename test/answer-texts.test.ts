/**
 * Random answers, with mistakes and without: the parser does not throw, loses no character, gives the same pieces wherever the text
 * is cut, and looks at each character a few times at most. The long run is answer-texts/long.ts.
 */
import { describe, expect, test } from "bun:test";
import { AnswerParser } from "../lib/model/text/formats/answer-parser.ts";
import { mostWork } from "./answer-texts/check.ts";
import { formats } from "./answer-texts/formats.ts";
import { planted } from "./answer-texts/planted.ts";
import { runTexts } from "./answer-texts/run.ts";
import { tools } from "./answer-texts/texts.ts";
import { workOf } from "./answer-texts/work.ts";

const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20263");
const texts = 1200;

test(`${texts} random texts`, () => {
  const { failure, counts } = runTexts(seed, 0, texts);
  expect(failure).toBeUndefined();
  for (const what of ["calls", "calls taken back", "texts that are not calls", "pieces of reasoning", "pieces of text", ...Object.keys(formats).map((name) => `answers of ${name}`)]) {
    expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }
});

describe(`each planted fault is found within ${texts}`, () => {
  test.each(Object.keys(planted))("%s", (name) => {
    using _ = planted[name]!();
    expect(runTexts(seed, 0, texts).failure).toStartWith("text ");
  });
});

describe("long texts take linear work", () => {
  const call = "<tool_call>\n<function=search>\n<parameter=query>\nx\n</parameter>\n</function>\n</tool_call>";
  const begin = "<tool_call>\n<function=search>\n<parameter=query>\n";
  const object = '<tool_call>\n{"name": "f", "arguments": {"a": ';
  const long: Readonly<Record<string, readonly [format: string, reasoning: "open" | "closed", part: string, before?: string, after?: string]>> = {
    "beginnings of tags": ["qwen3.5", "closed", "<"],
    blank: ["qwen3.5", "closed", "\n", "a"],
    calls: ["qwen3.5", "closed", call],
    "calls in thoughts that count": ["qwen3.5", "open", call],
    "calls in thoughts that do not count": ["qwen3.5", "open", call, "", "x"],
    "calls in thoughts, each with text": ["qwen3.5", "open", `${call} so `],
    "lines of a value": ["qwen3.5", "closed", "abc\n", begin],
    "ends of a value that are none": ["qwen3.5", "closed", "</parameter>\n", begin],
    "names in a value": ["qwen3.5", "closed", "\n<parameter=limit", begin],
    "begin tags": ["qwen3", "closed", "<tool_call>"],
    "lines of a string": ["qwen3", "closed", "\n</tool", `${object}"`],
    "brackets": ["qwen3", "closed", "[", object],
    "digits": ["qwen3", "closed", "1", object, "}}"],
    "arguments before the name": ["qwen3", "closed", "[],", '<tool_call>{"arguments": {"a": [', '1]}, "name": "f"}'],
    "quotes that end no string": ["olmo", "closed", "' ", "<function_calls>f(a='"],
    "calls of Python": ["olmo", "closed", "f(a=1)\n", "<function_calls>"],
  };
  test.each(Object.keys(long))("%s", (name) => {
    const [format, reasoning, part, before = "", after = ""] = long[name]!;
    const text = before + part.repeat(20_000 / part.length) + after;
    const parser = new AnswerParser(formats[format]!, { tools, reasoning });
    let given = "";
    const work = workOf(() => {
      for (let i = 0; i < text.length; i += 7) for (const { raw } of parser.push(text.slice(i, i + 7))) given += raw;
      for (const { raw } of parser.end()) given += raw;
    });
    expect(given === text).toBe(true);
    expect(work).toBeLessThan(mostWork.each * text.length);
  });
});
