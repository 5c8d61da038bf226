/** Answers that follow a schema, a grammar, an expression or the form of calls: the tokens that are allowed, and when. */
import { afterAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { GatedDeltaError, UnsupportedError } from "../../lib/errors.ts";
import { LanguageModel, Session, tinyModel } from "../../lib/model.ts";
import { loadedInfo } from "../../lib/native/library.ts";
import type { GenerateOptions } from "../../lib/model.ts";
import { Sampler } from "../../lib/model/sampling/sampler.ts";
import { settingsOf } from "../../lib/model/sampling/settings.ts";
import { tokenBytes } from "../../lib/model/text/tokenizer.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { openTiny, rejection } from "../support/models.ts";
import { collect } from "../support/sessions.ts";
import { writeThinkingModel } from "../support/thinking-models.ts";
import { validator } from "../support/random-schemas.ts";
import { runSchemas } from "../constraints/answers.ts";

const device = openDevice(2);
afterAll(() => device.close());
const { newPath } = scratch();
const memory = { states: 8, pages: { count: 200, tokens: 16 } };
const load = (folder: string = tinyModel) => LanguageModel.load(device, folder, memory);
const ends: readonly (number | undefined)[] = [0, 2];

/** Languages that can be tested by their beginnings: an expression for a whole text, and one for a text that can still become one. */
const languages: readonly { readonly options: GenerateOptions; readonly whole: RegExp; readonly beginning: RegExp }[] = [
  { options: { regex: "[a-f]{3,6}-\\d{1,3}" }, whole: /^[a-f]{3,6}-\d{1,3}$/, beginning: /^(?:[a-f]{0,6}|[a-f]{3,6}-\d{0,3})$/ },
  { options: { regex: /^(?:ab)+é?$/u }, whole: /^(?:ab)+é?$/, beginning: /^(?:(?:ab)*a?|(?:ab)+é)$/ },
  { options: { grammar: 'root ::= word{1,2} "."\nword ::= "to" | "be" [ou]*' }, whole: /^(?:to|be[ou]*){1,2}\.$/, beginning: /^(?:(?:to|be[ou]*)?(?:t|to|b|be[ou]*)?|(?:to|be[ou]*){1,2}\.?)$/ },
  { options: { schema: { enum: [12, 123, true, ["a"]] } }, whole: /^(?:12|123|true|\["a"\])$/, beginning: /^(?:|1|12|123|t|tr|tru|true|\[|\["|\["a|\["a"|\["a"\])$/ },
];

describe.each(languages)("%o", ({ options, whole, beginning }) => {
  test("tokens are those of a sampler that knows the language, with drafts, forks, files and neighbours", async () => {
    using model = await load();
    const { bytesOf } = tokenBytes(model.text.tokenizer);
    const prompt = model.text.encode("ab ab [1, 23] to be 12-");
    for (const [seed, temperature] of [[1, 0.8], [2, 1.5], [3, 0]] as const) {
      const settings = settingsOf({ temperature }, {});
      const expected: number[] = [];
      const logprobs: number[] = [];
      using cold = model.session().append(prompt);
      for (let text = ""; !ends.includes(expected.at(-1)); ) {
        const logits = await cold.logits();
        const barred = new Set<number>();
        for (let id = 0; id < logits.length; id++) {
          const bytes = bytesOf(id);
          const next = bytes === undefined || id < 3 ? undefined : new TextDecoder().decode(Uint8Array.of(...new TextEncoder().encode(text), ...bytes));
          // The bytes of é are one token or two.
          const fits = ends.includes(id) ? whole.test(text) : next !== undefined && (beginning.test(next) || (/é/.test(whole.source) && /^(?:ab)+\ufffd$/.test(next) && bytes!.at(-1) === 0xc3));
          if (!fits) barred.add(id);
        }
        const token = new Sampler(settings, seed, logits.length).choose(logits, cold.length, { without: barred, by: "test" });
        logprobs.push(logits[token]! - Math.log(logits.reduce((sum, x) => sum + Math.exp(x), 0)));
        expected.push(token);
        cold.append([token]);
        text = model.text.tokenizer.decode(expected);
        if (expected.length > 60) break;
      }
      for (const drafts of [false, true, { tokens: 3, longest: 2, shortest: 1 }]) {
        const given = { ...options, temperature, seed, drafts, logprobs: true, maxTokens: 60 };
        using other = model.session().append([7, 8, 9]);
        const busy = other.complete({ temperature: 1, seed: 5, maxTokens: 30, ignoreModelStops: true });
        using session = model.session().append(prompt);
        const whole = await collect(session.fork().generate(given));
        expect(whole.map(({ token }) => token)).toEqual(expected.slice(0, 60));
        for (const [i, { logprob }] of whole.entries()) expect(logprob!).toBeCloseTo(logprobs[i]!, 4);
        // An answer that was left continues where it was: the matcher is made again from its tokens.
        const first = await collect(session.generate({ ...given, maxTokens: 2 }));
        const path = newPath();
        await session.save(path);
        using loaded = await Session.load(model, path);
        using fork = session.fork();
        for (const one of [session, loaded, fork]) {
          expect([...first, ...(await collect(one.generate({ ...given, maxTokens: 58 })))].map(({ token }) => token)).toEqual(expected.slice(0, 60));
        }
        await busy;
      }
    }
  });
});

const person = z.object({ name: z.string().max(6), age: z.int().min(1).max(99), role: z.enum(["cook", "clerk"]).nullable(), langs: z.array(z.string().regex(/^[a-z]{2}$/)).max(2) });

describe("schemas", () => {
  test("of zod are enforced, without its types in ours", async () => {
    using model = await load();
    for (let seed = 0; seed < 4; seed++) {
      using session = model.session().append([10, 11, 12 + seed]);
      const { text, end } = await session.complete({ schema: person, temperature: 1.2, seed, maxTokens: 250 });
      if (end === "token") expect(() => person.parse(JSON.parse(text))).not.toThrow();
    }
  });

  test("that are random: 12 of them, each answer validated by another validator", async () => {
    using model = await load();
    const { valid, cut, impossible } = await runSchemas(model, { first: 500, schemas: 12, answers: 1, lanes: 4, maxTokens: 150 });
    expect(valid + cut + impossible).toBe(12);
    expect(valid).toBeGreaterThan(8);
  }, 300_000);

  test("and other constraints are refused together, and with options that contradict them", async () => {
    using model = await load();
    using session = model.session().append([5]);
    const refused: readonly [object, string, string][] = [
      [{ schema: {}, regex: "a" }, "regex", "invalid-argument"], [{ grammar: "root ::= \"a\"", toolChoice: "none" }, "toolChoice", "invalid-argument"],
      [{ schema: {}, ignoreModelStops: true }, "ignoreModelStops", "invalid-argument"], [{ regex: "a", minTokens: 2 }, "minTokens", "invalid-argument"],
      [{ schema: 1 }, "schema", "invalid-argument"], [{ schema: [] }, "schema", "invalid-argument"], [{ schema: false }, "schema", "invalid-argument"],
      [{ schema: { get type() { throw new Error("no"); } } }, "schema", "invalid-argument"], [{ schema: z.date() }, "schema", "unsupported"],
      [{ grammar: "" }, "grammar", "invalid-argument"], [{ grammar: "root ::= (" }, "grammar", "invalid-argument"], [{ grammar: "root ::= nosuch" }, "grammar", "invalid-argument"], [{ grammar: "a ::= \"a\"" }, "grammar", "invalid-argument"],
      [{ grammar: `root ::= ${"(".repeat(100_000)}"a"${")".repeat(100_000)}` }, "grammar", "invalid-argument"],
      [{ regex: "(a" }, "regex", "unsupported"], [{ regex: "(?<=a)b" }, "regex", "unsupported"], [{ regex: /a/i }, "regex", "unsupported"], [{ regex: "(a)\\1" }, "regex", "unsupported"],
      [{ regex: "[b-a]" }, "regex", "unsupported"], [{ regex: "a{100000}" }, "regex", "unsupported"], [{ regex: "(?=a)(?!a)a" }, "regex", "unsupported"], [{ regex: "^(?!a)a$" }, "regex", "invalid-argument"],
      [{ regex: ".{2000}" }, "regex", "unsupported"],
      [{ toolChoice: "required" }, "toolChoice", "invalid-argument"], [{ toolChoice: { name: "f" } }, "toolChoice.name", "invalid-argument"], [{ toolChoice: "any" }, "toolChoice", "invalid-argument"],
      [{ maxReasoningTokens: 3 }, "maxReasoningTokens", "unsupported"], [{ maxReasoningTokens: -1 }, "maxReasoningTokens", "invalid-argument"],
    ];
    for (const [options, argument, code] of refused) {
      const error = await rejection((async () => session.complete(options as GenerateOptions))());
      expect([options, error.argument, error.code]).toEqual([options, argument, code as GatedDeltaError["code"]]);
    }
    expect((await session.complete({ regex: "ok", maxTokens: 9 })).text).toBe("ok");
  });

  test("need the package, a tokenizer and tokens that are left", async () => {
    using model = await load();
    using session = model.session().append([5]);
    const none = await rejection(session.complete({ regex: "[ab]", logitBias: new Map(Array.from({ length: 419 }, (_, id) => [id, -Infinity])) }));
    expect([none.code, none.argument, none.received]).toEqual(["invalid-argument", "regex, logitBias", "none"]);
    using ids = await openTiny(device);
    using bare = ids.session().append([5]);
    expect(await rejection(bare.complete({ regex: "a" }))).toBeInstanceOf(UnsupportedError);
  });

  test("name the package where it is missing", () => {
    const folder = newPath();
    const root = join(import.meta.dir, "../..");
    for (const name of ["lib", "package.json"]) cpSync(join(root, name), join(folder, name), { recursive: true });
    mkdirSync(join(folder, "node_modules"));
    for (const name of ["zod", "@huggingface"]) symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
    const program = `
      import { Device } from "${folder}/lib/index.ts";
      import { LanguageModel } from "${folder}/lib/model.ts";
      const model = await LanguageModel.load(Device.open("cpu"), ${JSON.stringify(tinyModel)}, { states: 2, pages: 8 });
      await model.session().append([5]).complete({ regex: "a" }).catch((error) => console.log(error.code, error.message));
      console.log((await model.session().append([5]).complete({ maxTokens: 1 })).end);
    `;
    const library = { GATED_DELTA_LIBRARY: process.env["GATED_DELTA_LIBRARY"] ?? loadedInfo().path };
    const child = Bun.spawnSync([process.execPath, "--no-install", "-e", program], { cwd: folder, env: { ...process.env, ...library } });
    expect(child.stdout.toString()).toBe("unsupported session.generate: expected the package @mlc-ai/web-xgrammar: `bun add @mlc-ai/web-xgrammar`, got no such package\nlength\n");
  });

  test("do not fit an answer that has begun otherwise", async () => {
    using model = await load();
    using session = model.session().append([5]);
    await session.complete({ regex: "ab", maxTokens: 1 });
    const error = await rejection(session.complete({ regex: "[xyz]" }));
    expect([error.code, error.argument]).toEqual(["state", "regex"]);
    session.append([6]);
    expect((await session.complete({ regex: "[xyz]" })).text).toMatch(/^[xyz]$/);
  });
});

describe("the Workers", () => {
  test("compile once, and end what waits for them when it is aborted or the model disposed", async () => {
    using model = await load();
    const slow = { type: "string", maxLength: 700 };
    using session = model.session().append([5]);
    const reason = new Error("enough");
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 30);
    expect(await session.complete({ schema: slow, signal: controller.signal }).catch((error: unknown) => error)).toBe(reason);
    expect((await session.complete({ regex: "yes" })).text).toBe("yes"); // by another Worker, while the first one compiles
    const left = session.append([6]).generate({ schema: slow });
    const pending = left.next();
    await left.return();
    expect((await pending).done).toBe(true);
    const lost = model.session().append([7]).complete({ schema: slow });
    setTimeout(() => model[Symbol.dispose](), 20);
    expect(await rejection(lost)).toBeInstanceOf(GatedDeltaError);
  });

  test("serve several grammars and many sessions at the same time", async () => {
    using model = await load();
    const expressions = ["a{3}", "b{4}", "c{5}", "d{6}", "e{7}"];
    const answers = await Promise.all(Array.from({ length: 20 }, async (_, i) => {
      using session = model.session().append([5 + i]);
      return (await session.complete({ regex: expressions[i % 5]!, temperature: 1, seed: i })).text;
    }));
    for (const [i, text] of answers.entries()) expect(text).toMatch(new RegExp(`^${expressions[i % 5]!}$`));
  });
});

const question = [{ role: "user", content: "Well?" }] as const;
const tools = [
  { type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string", maxLength: 6 }, days: { type: "integer", minimum: 1, maximum: 9 }, unit: { enum: ["C", "F"] } }, required: ["city"] } } },
  { name: "pick", parameters: { type: "object", properties: { of: { type: "array", items: { enum: ["a", "b\"", 3] }, minItems: 1, maxItems: 2 }, sure: { type: ["boolean", "null"] } }, required: ["of", "sure"] } },
] as const;

describe.each([["json", true], ["json", false], ["xml", true], ["xml", false]] as const)("calls as %s, tags as tokens: %p", (style, asTokens) => {
  const folder = writeThinkingModel(newPath(), style, asTokens);

  test("constraints begin where thoughts end, and thoughts end by the budget", async () => {
    using model = await load(folder);
    using session = model.session().chat(question);
    const closing = model.text.encode("</think>");
    expect(closing.length === 1).toBe(asTokens);
    const schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
    for (const seed of [1, 2]) {
      const answers: (readonly number[])[] = [];
      for (const drafts of [false, true]) {
        using one = session.fork();
        // The last token is chosen without the tag, so that thoughts that end by chance do not fail the test.
        const { tokens, text, end } = await one.complete({ schema, temperature: 1, seed, maxReasoningTokens: 5, drafts, maxTokens: 120 });
        expect(end).toBe("token");
        const [thoughts, answer] = text.split("</think>");
        expect(tokens.slice(5, 5 + closing.length)).toEqual(closing);
        expect(model.text.encode(thoughts!).length).toBeGreaterThan(0);
        expect(answer).toMatch(/^\n{0,2}\{/);
        expect(validator(schema)(JSON.parse(answer!))).toBe(true);
        answers.push(tokens);
        // Cut anywhere, it continues in the same way.
        using other = session.fork();
        const head = await other.complete({ schema, temperature: 1, seed, maxReasoningTokens: 5, drafts, maxTokens: 4 + seed });
        const tail = await other.complete({ schema, temperature: 1, seed, maxReasoningTokens: 5, drafts, maxTokens: 120 });
        expect([...head.tokens, ...tail.tokens]).toEqual([...tokens]);
      }
      expect(answers[1]).toEqual(answers[0]!);
    }
    using calm = model.session().chat(question, { variables: { enable_thinking: false } });
    expect((await calm.complete({ schema, temperature: 1, seed: 3, maxReasoningTokens: 5 })).text).toMatch(/^\{/);
  });

  test("an answer of a form does not end within thoughts", async () => {
    using model = await load(folder);
    using session = model.session().chat(question);
    const logitBias = Object.fromEntries(model.config.eosTokens.map((id) => [id, 100]));
    const options = { temperature: 1, seed: 4, logitBias, maxReasoningTokens: 5, maxTokens: 120 };
    for (const drafts of [false, true]) {
      using free = session.fork();
      expect((await free.complete({ ...options, drafts })).tokens.length).toBe(1);
      using formed = session.fork();
      const { text, end } = await formed.complete({ ...options, drafts, schema: { enum: ["rain", 7] } });
      expect(end).toBe("token");
      expect(["rain", 7]).toContain(JSON.parse(text.slice(text.indexOf("</think>") + "</think>".length)));
    }
  });

  test("a choice of tools is kept", async () => {
    using model = await load(folder);
    using session = model.session().chat(question, { tools: [...tools], variables: { enable_thinking: false } });
    const parameters = (name: string) => validator(tools.map((tool) => ("function" in tool ? tool.function : tool)).find((tool) => tool.name === name)!.parameters);
    let answered = 0;
    for (let seed = 0; seed < 4; seed++) {
      for (const toolChoice of ["required", { name: "weather" }, { name: "pick" }] as const) {
        using one = session.fork();
        const { toolCalls, content, end } = await one.answer({ toolChoice, temperature: 1.3, seed, drafts: seed % 2 === 0, maxTokens: 160 });
        if (end === "length") continue;
        expect(content.trim()).toBe("");
        answered++;
        if (typeof toolChoice === "object") expect(toolCalls.map(({ name }) => name)).toEqual([toolChoice.name]);
        expect(toolCalls.length).toBeGreaterThan(0);
        for (const call of toolCalls) expect([call, parameters(call.name)(call.arguments)]).toEqual([call, true]);
      }
      using either = session.fork();
      const { toolCalls, content, end } = await either.answer({ schema: { enum: ["rain", 7] }, toolChoice: "auto", temperature: 1.3, seed, drafts: seed % 2 === 0, maxTokens: 160 });
      if (end !== "length" && toolCalls.length === 0) expect(["rain", 7]).toContain(JSON.parse(content));
      if (end !== "length") for (const call of toolCalls) expect([call, parameters(call.name)(call.arguments), content.trim()]).toEqual([call, true, ""]);
      using value = session.fork();
      expect(["rain", 7]).toContain(JSON.parse((await value.answer({ schema: { enum: ["rain", 7] }, toolChoice: "none", temperature: 1.3, seed, maxTokens: 160 })).content));
      using none = session.fork();
      // Without the tool choice, these biases would begin a call.
      const begins = asTokens ? { 501: -5, 502: 60 } : {};
      const text = await none.complete({ toolChoice: "none", temperature: 1, seed, logitBias: begins, maxTokens: 30 });
      expect(text.text).not.toContain("<tool_call>");
    }
    expect(answered).toBeGreaterThan(4);
    const wrong = await rejection(session.complete({ toolChoice: { name: "nosuch" } }));
    expect([wrong.argument, wrong.expected]).toEqual(["toolChoice.name", '"weather" | "pick"']);
    using unenforced = model.session().chat(question, { tools: [{ name: "f", parameters: { type: "object", properties: { a: { type: "array", uniqueItems: true } } } }] });
    expect((await rejection(unenforced.complete({ toolChoice: "required" }))).argument).toMatch(/^tools\[0\]\.parameters.*uniqueItems$/);
  }, 120_000);
});
