/** Schemas at the limits of compilation: the sizes of their grammars, the parts that errors name, and which requests wait for a Worker. */
import { afterAll, describe, expect, spyOn, test } from "bun:test";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { accepts } from "../../lib/model/constraints/automaton.ts";
import { constraintOf } from "../../lib/model/constraints/constraint-grammar.ts";
import type { AnswerContext } from "../../lib/model/constraints/constraint-grammar.ts";
import { MatcherWorker } from "../../lib/model/constraints/matcher-worker.ts";
import { libraryPath, Matchers } from "../../lib/model/constraints/matchers.ts";
import { integersWithin } from "../../lib/model/constraints/number-range.ts";
import { byteCharacters } from "../../lib/model/text/byte-level.ts";
import { openDevice, thrownBy } from "../support/devices.ts";
import { rejection } from "../support/models.ts";
import { Random } from "../support/random.ts";

const grammarOf = (schema: object): string => constraintOf("generate", { schema }, () => ({ format: undefined, tools: [] }))!.grammar;
const rulesOf = (schema: object): number => grammarOf(schema).trimEnd().split("\n").length;
const range = <T>(count: number, of: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => of(i));
const object = (count: number, of: (i: number) => unknown, more: object = {}): object => ({ type: "object", properties: Object.fromEntries(range(count, (i) => [`p${i}`, of(i)])), ...more });
const nested = (levels: number): object => {
  let schema: object = {};
  for (let i = 0; i < levels; i++) schema = { items: schema };
  return schema;
};

describe("limits of integers", () => {
  test("are kept, however many digits they have", () => {
    const random = new Random(3);
    const digits = () => BigInt(`${1 + random.below(9)}${range(random.below(random.pick([2, 20, 308])), () => random.below(10)).join("")}`);
    const signed = () => digits() * (random.below(2) === 0 ? 1n : -1n);
    for (let i = 0; i < 60; i++) {
      const [one, other] = [signed(), signed()];
      const [low, high] = one < other ? [one, other] : [other, one];
      const automaton = integersWithin({ least: { value: low, allowed: true }, most: { value: high, allowed: false } });
      for (const value of [low, low - 1n, low + 1n, high, high - 1n, high + 1n, 0n, ...range(40, signed)]) {
        expect([low, high, value, accepts(automaton, String(value))]).toEqual([low, high, value, value >= low && value < high]);
      }
      for (const text of ["", "-", "-0", "00", "01", "+1"]) expect([low, high, text, accepts(automaton, text)]).toEqual([low, high, text, false]);
    }
  });

  test.each([{ maximum: 1e100 }, { maximum: 1e308 }, { maximum: Number.MAX_VALUE }, { minimum: 1e308 }, { minimum: -1e308, maximum: 1e308 }, { exclusiveMaximum: 10n ** 308n }])("compile: %p", (limits) => {
    expect(grammarOf({ type: "integer", ...limits })).toMatch(/^root ::= /);
  });
});

describe("what is refused names its place", () => {
  const list: readonly [argument: string, schema: object, words: RegExp][] = [
    ["schema.properties.p0.maximum", object(1, () => ({ type: "integer", maximum: 10n ** 400n })), /at most 309 digits/],
    ["schema.properties.p0.items.multipleOf", object(1, () => ({ items: { type: "integer", multipleOf: 999, maximum: 1e300 } })), /5000 states/],
    ["schema.properties.p0", object(1, () => ({ type: "string", maxLength: 9000 })), /5000 states/],
    ["schema.properties.p1.minimum", object(2, (i) => (i === 0 ? { type: "integer" } : { type: "integer", minimum: null })), /a number/],
    ["schema.$ref", { $ref: "#/$defs/%E0%A4%A", $defs: {} }, /%/],
    ["schema.pattern", { type: "string", pattern: `^${"[ab]".repeat(30_000)}$` }, /100000 characters/],
  ];
  test.each(list)("%s", (argument, schema, words) => {
    const error = thrownBy(() => grammarOf(schema));
    expect([error.code, error.argument]).toEqual(["unsupported", argument]);
    expect(error.message).toMatch(words);
  });

  test("also an argument of a tool whose alternatives lead to themselves", () => {
    const parameters = { type: "object", properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }] } } };
    const toolCall = { begin: "<tool_call>", end: "</tool_call>", syntax: "xml" };
    const context = { format: { toolCall }, tools: [{ name: "f", parameters }] } as unknown as AnswerContext;
    const error = thrownBy(() => constraintOf("generate", { toolChoice: "required" }, () => context));
    expect([error.code, error.argument?.startsWith("tools[0].parameters.properties.a")]).toEqual(["unsupported", true]);
  });
});

describe("the size of a grammar", () => {
  test("grows with different schemas, not with equal ones", () => {
    const [integer, other] = [{ type: "integer" }, { type: "integer", maximum: 77 }];
    const [one, two] = [rulesOf(integer), rulesOf(other)];
    expect(rulesOf(object(500, () => integer))).toBeLessThan(1000 + one + 40);
    expect(rulesOf(object(500, (i) => [integer, other][i % 2]))).toBeLessThan(1000 + one + two + 40);
    const [inner, list] = [object(10, () => integer), { type: "array", items: other, minItems: 3 }];
    expect(rulesOf(object(300, () => inner))).toBeLessThan(600 + rulesOf(inner) + 40);
    expect(rulesOf(object(300, () => list))).toBeLessThan(600 + rulesOf(list) + 40);
  });

  test("is enough for large schemas", () => {
    const tagged = { oneOf: range(1000, (i) => object(1, () => ({ const: `v${i}` }), { required: ["p0"] })) };
    const large = [object(2000, () => ({ type: "integer" })), object(3000, () => ({ type: "string" }), { required: range(3000, (i) => `p${i}`) }), { enum: range(50_000, (i) => `word ${i}`) }, tagged, object(20, () => ({ type: "string", maxLength: 900 }))];
    for (const schema of large) expect(grammarOf(schema)).toMatch(/^root ::= /);
  });

  let shared: object = { type: "null" };
  for (let i = 0; i < 40; i++) shared = { anyOf: [shared, shared] };
  const references = Object.fromEntries(range(60, (i) => [`d${i}`, { type: "object", properties: { a: true }, anyOf: [1, 2].map(() => ({ $ref: `#/$defs/d${i + 1}` })) }]));
  const refused: readonly [name: string, schema: object, words: RegExp][] = [
    ["values", { enum: range(200_001, String) }, /at most 200000 values/],
    ["shared parts that multiply", shared, /at most 200000 values/],
    ["levels", nested(20_000), /2000 values of JSON within each other/],
    ["characters", { enum: range(2000, (i) => `${i} ${"long".repeat(250)}`) }, /1500000 characters/],
    ["rules", object(1500, (i) => ({ type: "integer", maximum: 12_345_678 + i * 7919 })), /12000 rules/],
    ["counts of properties", object(500, () => true, { additionalProperties: false, minProperties: 250 }), /12000 rules/],
    ["optional properties", object(3500, () => ({ type: "integer" })), /optional properties/],
    ["lengths", object(20, (i) => ({ type: "string", maxLength: 1000 - i })), /at most 1000 in all/],
    ["references that multiply", { $ref: "#/$defs/d0", $defs: { ...references, d60: { required: ["a"] } } }, /steps to combine/],
    ["automata that leave nothing", object(1200, (i) => ({ type: "string", pattern: `^(a|b){${1000 + i}}$`, maxLength: 100 })), /steps to combine/],
    ["ranges of a class", { type: "string", pattern: `[${range(20_000, (i) => String.fromCodePoint(0x4e00 + i * 2)).join("")}]{0,50}` }, /steps to combine/],
  ];
  test.each(refused)("is limited: %s", (_, schema, words) => {
    const error = thrownBy(() => grammarOf(schema));
    expect([error.code, error.argument]).toEqual(["unsupported", "schema"]);
    expect(error.message).toMatch(words);
  });
});

const device = openDevice(1);
afterAll(() => device.close());

/** Opens the texts of grammars for a model. */
const opening = (matchers: Matchers, { text, config }: LanguageModel) => (grammar: string) => matchers.open("generate", "grammar", text, config, grammar);

test("a text that is closed before a Worker was free for it is not compiled", async () => {
  using model = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
  using matchers = new Matchers();
  const ask = spyOn(MatcherWorker.prototype, "ask");
  const open = opening(matchers, model);
  const slow = range(3, (i) => grammarOf({ type: "array", items: { type: "integer", maximum: 99 + i }, maxItems: 400 }));
  const [left, late] = ['root ::= "left"', 'root ::= "late"'];
  try {
    const busy = await Promise.all(slow.map(open));
    const [first, second] = [await open(left), await open(late)];
    const lost = first.next([], []);
    first.close();
    expect(await lost.then(() => "served", () => "refused")).toBe("refused");
    expect("masks" in (await second.next([], []))).toBe(true);
    for (const one of busy) expect("masks" in (await one.next([], []))).toBe(true);
    const opened = ask.mock.calls.flatMap(([request]) => (request.kind === "open" ? [request.grammar] : []));
    expect(opened).toEqual([...slow, late]);
    for (const one of [...busy, second]) one.close();
  } finally {
    ask.mockRestore();
  }
});

test("a text that is closed while it opens or is asked takes none of the Worker's other texts with it", async () => {
  using model = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
  using matchers = new Matchers();
  const open = opening(matchers, model);
  const grammar = 'root ::= "ab"+';
  // The first one opens while the Worker is still being given its tokens.
  const other = await open(grammar);
  for (let turn = 0; turn < 20; turn++) {
    const left = await open(turn % 2 ? grammar : `root ::= "${turn}"`);
    const asked = [left.next([], [])];
    if (turn % 3 === 0) await asked[0];
    if (turn % 4 === 0) asked.push(left.next([], []));
    left.close();
    expect((await rejection(left.next([], []))).code).toBe("internal");
    for (const one of asked) expect("masks" in (await one)).toBe(true);
    expect("masks" in (await other.next([], []))).toBe(true);
  }
  other.close();
});

test("a text keeps none of the masks that it gave", async () => {
  using model = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
  using matchers = new Matchers();
  const text = await opening(matchers, model)('root ::= "a"*');
  const [a] = model.text.tokenizer.encode("a");
  const masks: WeakRef<object>[] = [];
  for (let i = 0; i < 200; i++) {
    const found = await text.next([a!], []);
    if (!("masks" in found)) throw new Error("it does not fit");
    masks.push(new WeakRef(found.masks));
  }
  await Bun.sleep(0);
  Bun.gc(true);
  expect(masks.filter((mask) => mask.deref() !== undefined).length).toBeLessThan(20);
  text.close();
});

test("a grammar that a Worker has does not wait for another one's compilation", async () => {
  using model = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
  using matchers = new Matchers();
  const open = opening(matchers, model);
  const known = 'root ::= "yes"';
  const first = await open(known);
  await first.next([], []);
  first.close();
  const slow = await open(grammarOf({ type: "array", items: { type: "integer", maximum: 99 }, maxItems: 400 }));
  const order: string[] = [];
  const compiled = slow.next([], []).then(() => order.push("slow"));
  const second = await open(known);
  await second.next([], []);
  order.push("known");
  await compiled;
  expect(order).toEqual(["known", "slow"]);
  second.close();
  slow.close();
});

test("a Worker's grammars are bounded: those that were used last are known", async () => {
  const worker = new MatcherWorker(libraryPath("test"), { vocabSize: 257, ends: [256], textOf: (id) => byteCharacters[id] ?? "" });
  const grammar = (i: number) => `root ::= "${i}"`;
  for (let i = 0; i < 40; i++) {
    const { id } = await worker.ask({ kind: "open", grammar: grammar(i) }, 10_000);
    worker.close(id);
  }
  expect(range(40, (i) => worker.has(grammar(i)))).toEqual(range(40, (i) => i >= 24));
  worker.end("tested");
});

test("an answer ends with a typed error when its model is disposed while its grammar is checked, and so does a text that is opened later", async () => {
  const model = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
  using session = model.session().append("x");
  const answer = rejection(session.complete({ grammar: 'root ::= "ab"+', maxTokens: 5 }));
  await Bun.sleep(20);
  model[Symbol.dispose]();
  expect((await answer).code).toBe("disposed");
  using matchers = new Matchers();
  matchers[Symbol.dispose]();
  expect((await rejection(matchers.open("generate", "grammar", model.text, model.config, 'root ::= "a"'))).code).toBe("disposed");
});
