/** Schemas and expressions as grammars: automata against JavaScript's own expressions, and grammars as xgrammar reads them. */
import { afterAll, describe, expect, test } from "bun:test";
import { GatedDeltaError } from "../lib/errors.ts";
import { accepts, anyPoint, both, complement, joinPoints, minimal, ofLength, ofTexts, otherPoints, trimmed } from "../lib/model/constraints/automaton.ts";
import type { Automaton } from "../lib/model/constraints/automaton.ts";
import { constraintOf } from "../lib/model/constraints/constraint-grammar.ts";
import type { ConstraintOptions } from "../lib/model/constraints/constraint-grammar.ts";
import { automatonOf } from "../lib/model/constraints/expression.ts";
import { libraryPath } from "../lib/model/constraints/matchers.ts";
import { serveMasks } from "../lib/model/constraints/matcher-program.ts";
import { MatcherWorker } from "../lib/model/constraints/matcher-worker.ts";
import { integersWithin, multiplesOf, numbersWithin } from "../lib/model/constraints/number-range.ts";
import { byteRangesOf } from "../lib/model/constraints/utf8-ranges.ts";
import { byteCharacters } from "../lib/model/text/byte-level.ts";
import { thrownBy } from "./support/devices.ts";
import { Random } from "./support/random.ts";

const characters = ["a", "b", "c", "x", "y", "Z", "1", "2", ".", "@", "-", " ", "\n", "\u2028", "é", "😀", "\\", "\""];
const textFrom = (random: Random, most: number): string => Array.from({ length: random.below(most + 1) }, () => random.pick(characters)).join("");

describe("automata", () => {
  const sources = [
    "ab|cd", "^a+b*$", "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$", "[^a-c]{2,3}", "\\d+(\\.\\d{1,2})?",
    "^(?:x|yz)?$", "a.c", "^$", "", "[\\w-]+", "x{0,3}y{2}", "^\\u{1F600}|é$", "(a|b)*c", "^(?=a)(?!ab)a", "^\\S+\\s?$", "[\\x41-Z]{1,2}?", "(?<word>a)+b", "[\\ud83d\\ude00é]", "\\u00e9|\\cJ|[\\b]|\\0", "^\\D\\W$", "[^]", "^[\\d.]{2,}$",
  ];
  test.each(sources)("of %p accept what JavaScript finds", (source) => {
    const [found, whole] = [new RegExp(source, "u"), new RegExp(`^(?:${source})$`, "u")];
    const anchored = /(?:^|\|)\^|\$(?:$|\|)/.test(source);
    const searching = automatonOf(source, true);
    const matching = automatonOf(source, false);
    const random = new Random(source.length);
    for (let i = 0; i < 1500; i++) {
      const text = textFrom(random, 8);
      expect([text, accepts(searching, text)]).toEqual([text, found.test(text)]);
      if (!anchored) expect([text, accepts(matching, text)]).toEqual([text, whole.test(text)]);
      expect(accepts(minimal(searching), text)).toBe(found.test(text));
      expect(accepts(complement(searching), text)).toBe(!found.test(text));
      expect(accepts(both(searching, ofLength(2, 5)), text)).toBe(found.test(text) && [...text].length >= 2 && [...text].length <= 5);
    }
  });

  test("of lists accept their texts alone", () => {
    const texts = ["", "a", "ab", "abc", "é", "😀x"];
    const list = ofTexts(texts);
    for (const text of [...texts, "b", "abcd", "😀", "e"]) expect([text, accepts(list, text)]).toEqual([text, texts.includes(text)]);
    expect(trimmed(both(list, complement(list)))).toBeUndefined();
  });

  test("of numbers accept those within limits", () => {
    const random = new Random(5);
    const limit = (value: number | undefined, allowed: boolean) => (value === undefined ? undefined : { value, allowed });
    for (let i = 0; i < 120; i++) {
      const pick = () => (random.below(5) === 0 ? undefined : (random.below(400) - 200) / random.pick([1, 10, 100]));
      const [low, high, withLow, withHigh] = [pick(), pick(), random.below(2) === 0, random.below(2) === 0];
      const fits = (x: number) => (low === undefined || (withLow ? x >= low : x > low)) && (high === undefined || (withHigh ? x <= high : x < high));
      const limits = { least: limit(low, withLow), most: limit(high, withHigh) };
      const [integers, numbers] = [integersWithin(limits), numbersWithin(limits)!];
      for (let x = -230; x <= 230; x += 1 + random.below(3)) expect([limits, x, accepts(integers, String(x))]).toEqual([limits, x, fits(x)]);
      for (let j = 0; j < 200; j++) {
        const text = `${random.pick(["", "-"])}${random.below(random.pick([3, 210]))}${random.pick(["", "", ".0", ".5", ".50", ".05", ".999", `.${random.below(1000)}`])}`;
        if (text.startsWith("-") && Number(text) === 0) continue; // a zero has no sign
        expect([limits, text, accepts(numbers, text)]).toEqual([limits, text, fits(Number(text))]);
      }
    }
    for (const divisor of [1, 3, 7, 12]) for (let x = -60; x < 60; x++) expect(accepts(multiplesOf(divisor), String(x))).toBe(x % divisor === 0);
  });

  test("bytes of ranges are those of each character, once", () => {
    const random = new Random(2);
    for (let i = 0; i < 60; i++) {
      const ends = Array.from({ length: 4 }, () => random.pick([random.below(300), random.below(0x3000), random.below(0x110000), 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000])).sort((a, b) => a - b);
      const points = otherPoints(otherPoints(joinPoints([[ends[0]!, ends[1]!], [ends[2]!, ends[3]!]])));
      const sequences = byteRangesOf(points);
      for (let j = 0; j < 200; j++) {
        const point = random.pick([random.below(0x110000), random.below(0x900), ...ends, ...ends.map((end) => end + 1)]);
        if ((point >= 0xd800 && point <= 0xdfff) || point > 0x10ffff) continue;
        const bytes = new TextEncoder().encode(String.fromCodePoint(point));
        const fitting = sequences.filter((ranges) => ranges.length === bytes.length && ranges.every(([from, to], k) => from <= bytes[k]! && bytes[k]! <= to));
        expect([point, fitting.length]).toEqual([point, points.some(([from, to]) => from <= point && point <= to) ? 1 : 0]);
      }
    }
    expect(byteRangesOf(anyPoint).length).toBe(9);
  });
});

const end = 256;
const worker = new MatcherWorker(libraryPath("test"), { vocabSize: 257, ends: [end], textOf: (id) => byteCharacters[id] ?? "" });
afterAll(() => worker.end("the tests are over"));
const grammarOf = (options: ConstraintOptions) => constraintOf("generate", options, () => ({ format: undefined, tools: [] }))!;

/** Whether xgrammar accepts a text, byte by byte, and its end. */
async function takes(options: ConstraintOptions, texts: readonly (string | Uint8Array)[]): Promise<boolean[]> {
  const { grammar } = grammarOf(options);
  const taken: boolean[] = [];
  for (const text of texts) {
    const { id: matcher } = await worker.ask({ kind: "open", grammar }, 60_000);
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    const answer = await worker.ask({ kind: "next", matcher, tokens: [...bytes], guesses: [] }, 60_000);
    taken.push(answer.kind === "masks" && (answer.masks[0]![end >> 5]! & (1 << (end & 31))) !== 0);
    worker.close(matcher);
  }
  return taken;
}

/** Schemas, values that their grammars allow, and texts that they do not. */
const schemas: readonly [schema: object, values: readonly unknown[], others: readonly string[]][] = [
  [{ type: "integer", minimum: -5, maximum: 120 }, [-5, 0, 99, 120], ["-6", "121", "129", "1.0", "01", ""]],
  [{ type: "number", exclusiveMinimum: 0.5, maximum: 2.75 }, [0.51, 1, 2.75], ["0.5", "2.76", "3", "0.50", "1e0"]],
  [{ type: "number" }, [-1.5, 0, 12345.25, 1e21], ["01", ".5", "1.", "+1", "1e999"]],
  [{ type: "string" }, ["", "a\"b\\c\n\u0001", "é😀", "</x>"], ['"\t"', '"\\ud800"', '"\\x"', "'a'", '"']],
  [{ type: "string", minLength: 2, maxLength: 3 }, ["ab", "é😀", "\"\\\n", "\u0007a"], ['"a"', '"abcd"', '"a\t"']],
  [{ type: "string", pattern: "^[à-ü]+$" }, ["à", "éü"], ['"a"', '""', '"ÿ"']],
  [{ type: "string", format: "date" }, ["2024-02-29", "1900-02-28", "2000-02-29", "2026-11-30"], ['"1900-02-29"', '"2026-11-31"', '"2026-13-01"']],
  [{ enum: ["a\"", 1, null, { a: [true] }] }, ["a\"", 1, null, { a: [true] }], ['"a"', "2", "{}"]],
  [{ enum: ["x", 1, "yy"], type: "string", maxLength: 1 }, ["x"], ["1", '"yy"']],
  [{ type: "array", items: { type: "boolean" }, minItems: 1, maxItems: 2 }, [[true], [true, false]], ["[]", "[true,true,true]", "[true,]", "[1]"]],
  [{ type: "array", prefixItems: [{ type: "null" }, { const: 3 }], items: false }, [[], [null], [null, 3]], ["[3]", "[null,3,3]"]],
  [{ type: "object", properties: { a: { type: "integer" }, "b\"": { type: "null" } }, required: ["b\""] }, [{ a: 1, "b\"": null }, { "b\"": null }], ["{}", '{"a":1}', '{"b\\"":null,"c":1}', '{"b\\"":null,"a":1}']],
  [{ type: "object", properties: { a: { type: "integer" } }, additionalProperties: { type: "string" } }, [{ a: 1 }, { a: 1, b: "x", aa: "" }, { b: "x" }], ['{"a":"x"}', '{"b":1}', '{"a":1,"a":"x"}']],
  [{ type: "object" }, [{}, { a: [1, { b: null }], "": "x" }], ["[]", '{"a"}']],
  [{ type: "object", propertyNames: { maxLength: 2 }, additionalProperties: { type: "null" } }, [{}, { ab: null }], ['{"abc":null}']],
  [{ type: "object", properties: { a: true, b: true, c: true }, additionalProperties: false, minProperties: 1, maxProperties: 2 }, [{ a: 1 }, { a: 1, c: "x" }, { b: [], c: {} }], ["{}", '{"a":1,"b":1,"c":1}']],
  [{ anyOf: [{ type: "string", maxLength: 1 }, { type: "null" }] }, ["x", null], ['"xx"', "1"]],
  [{ type: "object", properties: { a: { type: "integer" } }, anyOf: [{ required: ["a"] }] }, [{ a: 1 }], ["{}"]],
  [{ $ref: "#/$defs/list", $defs: { list: { type: ["object", "null"], properties: { next: { $ref: "#/$defs/list" } }, required: ["next"] } } }, [null, { next: { next: null } }], ["{}", '{"next":1}']],
  [{ oneOf: [{ type: "object", properties: { k: { const: 1 } }, required: ["k"] }, { type: "object", properties: { k: { const: 2 }, v: {} }, required: ["k"] }, { type: "string" }] }, [{ k: 1 }, { k: 2, v: [] }, "x"], ['{"k":3}', '{"k":1,"v":1}']],
  [{ allOf: [{ $ref: "#/$defs/a" }], description: "one", $defs: { a: { type: "boolean" } } }, [true], ["null"]],
  [{ type: ["integer", "string"], minimum: 3, maxLength: 1 }, [3, "x"], ["2", '"xx"']],
  [{}, [1, "x", null, [[]], { a: {} }, true], ["", "nul", "[1,]"]],
];

describe("a schema's grammar", () => {
  test.each(schemas)("of %j has its values, on a line and indented, and nothing else", async (schema, values, others) => {
    const texts = values.flatMap((value) => [JSON.stringify(value), JSON.stringify(value, null, 2), ` ${JSON.stringify(value)}`]);
    // Constants are written on one line.
    const listed = "enum" in schema;
    expect(await takes({ schema }, texts)).toEqual(texts.map((text, i) => i % 3 === 0 || (i % 3 === 1 && (!listed || !text.includes("\n")))));
    expect(await takes({ schema }, others)).toEqual(others.map(() => false));
  });

  test("has no characters that are no UTF-8 where they are counted", async () => {
    const bytes = (...inner: number[]) => Uint8Array.of(0x22, ...inner, 0x22);
    const all = [bytes(0xc3, 0xb0), bytes(0xe0, 0xa0, 0x80), bytes(0xf0, 0x90, 0x80, 0x80), bytes(0xc3, 0xb0, 0xae, 0xae, 0x97), bytes(0xe0, 0x80, 0x80), bytes(0xed, 0xa0, 0x80), bytes(0xf5, 0x80, 0x80, 0x80), bytes(0xff), bytes(0x80)];
    expect(await takes({ schema: { type: "string", maxLength: 2 } }, all)).toEqual([true, true, true, false, false, false, false, false, false]);
  });

  test("is that of an expression", async () => {
    const random = new Random(8);
    for (const source of ["a.c", "^(?!.*cc)[a-c]{1,4}$", "[^a]+|é*", "(?:\\d{2}-)+x"]) {
      const texts = Array.from({ length: 60 }, () => textFrom(random, 4));
      const whole = new RegExp(`^(?:${source})$`, "u");
      expect(await takes({ regex: source }, texts)).toEqual(texts.map((text) => whole.test(text)));
    }
  });
});

describe("what would not be enforced is refused by name", () => {
  const list: readonly [object, string, RegExp?][] = [
    ...["not", "if", "then", "else", "contains", "minContains", "patternProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "nullable", "maxLenght", "$dynamicRef"].map((key): [object, string] => [{ [key]: {} }, `schema.${key}`]),
    [{ type: "array", uniqueItems: true }, "schema.uniqueItems"], [{ type: "object", properties: { a: { items: { not: {} } } } }, "schema.properties.a.items.not"],
    [{ type: "text" }, "schema.type"], [{ type: [] }, "schema.type"], [{ type: "string", format: "color" }, "schema.format"], [{ type: "string", pattern: "(?<=a)b" }, "schema.pattern", /character 2|groups/],
    [{ type: "string", pattern: "\\p{L}" }, "schema.pattern"], [{ type: "string", minLength: -1 }, "schema.minLength"], [{ type: "string", maxLength: 1e9 }, "schema.maxLength"], [{ type: "string", maxLength: 1001 }, "schema", /at most 1000/],
    [{ type: "number", multipleOf: 0.1 }, "schema.multipleOf"], [{ type: "number", minimum: 0.1 + 0.2 }, "schema", /14 digits/], [{ type: "number", minimum: "1" }, "schema.minimum"],
    [{ allOf: [{}, {}] }, "schema.allOf"], [{ anyOf: [] }, "schema.anyOf"], [{ anyOf: [{ type: "string" }], type: "null" }, "schema.anyOf[0].type"], [{ oneOf: [{ type: "integer" }, { type: "number" }] }, "schema.oneOf"],
    [{ $ref: "other.json" }, "schema.$ref"], [{ $ref: "#/$defs/none" }, "schema.$ref"], [{ $ref: "#" }, "schema.$ref", /itself/], [{ $ref: "#/$defs/a", type: "null", $defs: { a: {} } }, "schema.$ref"],
    [{ properties: 1 }, "schema.properties"], [{ required: [1] }, "schema.required"], [{ minProperties: 1, additionalProperties: true }, "schema"], [{ propertyNames: { type: "integer" } }, "schema.propertyNames"],
    [{ items: 3 }, "schema.items"], [{ enum: "a" }, "schema.enum"], [{ enum: [[1], 2], type: "array", minItems: 1 }, "schema"],
    [{ properties: { a: {} }, anyOf: [{ additionalProperties: false }] }, "schema.anyOf[0].additionalProperties"],
  ];
  test.each(list.map(([schema, argument, words = /./]) => [schema, argument, words] as const))("%j", (schema, argument, words) => {
    const error = thrownBy(() => grammarOf({ schema }));
    expect([error.code, error.argument]).toEqual(["unsupported", argument]);
    expect(error.message).toMatch(words);
  });

  test("or has no values at all", () => {
    for (const schema of [false, { enum: [] }, { type: "integer", minimum: 3, maximum: 2 }, { type: "object", required: ["a"], additionalProperties: false }, { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }, { type: "string", pattern: "^a$", minLength: 2 }]) {
      const error = thrownBy(() => grammarOf({ schema }));
      expect([schema, error.code, error.argument]).toEqual([schema, "invalid-argument", "schema"]);
    }
  });

  test("however deep, cyclic or large", () => {
    let deep: object = {};
    for (let i = 0; i < 3000; i++) deep = { items: deep };
    const cyclic: Record<string, unknown> = { type: "object" };
    cyclic["properties"] = { a: cyclic };
    const wide = { enum: Array.from({ length: 20000 }, (_, i) => `word ${i}`) };
    for (const schema of [deep, cyclic]) expect(thrownBy(() => grammarOf({ schema }))).toBeInstanceOf(GatedDeltaError);
    expect(grammarOf({ schema: wide }).grammar.length).toBeGreaterThan(20000);
    const explosive = { type: "string", pattern: "^(?:a|b)*a(?:a|b){16}$" } as const;
    expect(thrownBy(() => grammarOf({ schema: explosive })).argument).toBe("schema.pattern");
  });
});

test("the Worker's program has nothing from outside", () => {
  // For an import whose path it does not know, a TypeScript compiler makes the function call one of the surrounding file.
  expect(String(serveMasks)).not.toMatch(/\bimport\b|\brequire\(/);
});

const empty: Automaton = [{ accepts: false, edges: [] }];
test("an automaton without texts is none", () => expect(trimmed(empty)).toBeUndefined());
