/** Any value in any place of a model's calls gives a typed error or a sound result, never an error of the engine. */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { languageModel } from "../lib/ai.ts";
import { GatedDeltaError, StatePool } from "../lib/index.ts";
import { ChatTemplate, LanguageModel, Session, Tokenizer, tinyModel } from "../lib/model.ts";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { hostileValues } from "./support/hostile-values.ts";
import { rejection } from "./support/models.ts";

const { folder } = scratch();
const device = openDevice();
const model = await LanguageModel.load(device, tinyModel, { states: 4, pages: 64 });
afterAll(() => model[Symbol.dispose]());
const tokenizer = model.text.tokenizer;
const provider = languageModel(model);

/** Passes a value of any type to TypeScript. */
const as = (value: unknown) => value as never;

/** Calls `use` with a session that has one text. */
async function inSession<T>(use: (session: Session) => T): Promise<Awaited<T>> {
  using session = model.session().append("x");
  return await use(session);
}
const user = { role: "user", content: [{ type: "text", text: "x" }] } as const;
const generate = (options: object) => provider.doGenerate(as({ prompt: [user], maxOutputTokens: 1, ...options }));

/** Every call with such a value. */
const calls: Record<string, (value: unknown) => unknown> = {
  "load's folder": (value) => LanguageModel.load(device, as(value)),
  session: (value) => model.session(as(value)),
  append: (value) => inSession((session) => session.append(as(value))),
  ...Object.fromEntries(["maxTokens", "signal", "stop", "logitBias", "seed", "schema", "processors", "onProgress"].map((name) => [
    `complete's ${name}`, (value: unknown) => inSession((session) => session.complete(as({ maxTokens: 1, [name]: value }))),
  ])),
  "logits' signal": (value) => inSession((session) => session.logits({ signal: as(value) })),
  "completeMany's signal": (value) => inSession((session) => session.completeMany(1, { maxTokens: 1, signal: as(value) })),
  "identity's signal": (value) => model.identity({ signal: as(value) }),
  "run's tokens": (value) => model.run([{ sequence: model.sequence(), tokens: as(value) }]),
  decode: (value) => tokenizer.decode(as(value)),
  push: (value) => tokenizer.detokenizer().push(as(value)),
  "Tokenizer.load's folder": (value) => Tokenizer.load(as(value), { vocabSize: 512, eosTokens: [] }),
  "Tokenizer.load's limits": (value) => Tokenizer.load(tinyModel, as(value)),
  "ChatTemplate.load": (value) => ChatTemplate.load(as(value)),
  "a call of the AI SDK": (value) => provider.doGenerate(as(value)),
  ...Object.fromEntries(["prompt", "tools", "toolChoice", "seed", "maxOutputTokens", "stopSequences", "responseFormat", "abortSignal", "providerOptions"].map((name) => [
    `a call's ${name}`, (value: unknown) => generate({ [name]: value }),
  ])),
  "a call's message": (value) => generate({ prompt: [value] }),
  "a call's tool": (value) => generate({ tools: [value] }),
};

const values = hostileValues(device);

test.each(Object.entries(calls))("%s", async (_, call) => {
  for (const [name, value] of values) {
    try {
      await call(value);
    } catch (error) {
      if (!(error instanceof GatedDeltaError)) throw new Error(`given ${name}, it threw`, { cause: error });
    }
  }
}, 60_000);

test("what is no token id is refused by name", () => {
  for (const value of ["5", 1.5, -1, NaN, null, [5], 5n]) {
    expect(() => tokenizer.detokenizer().push(as(value))).toThrow("detokenizer.push: token: expected an integer");
  }
});

describe("a path with a lone surrogate, which a file's name cannot hold", () => {
  const [one, other] = [`${folder}/user-\ud800.bin`, `${folder}/user-\udbff.bin`] as const;

  test("names no session's file", async () => {
    await inSession(async (session) => {
      expect(await rejection(session.save(one))).toMatchObject({ code: "invalid-argument", argument: "path" });
      await session.save(join(folder, "user-\ufffd.bin"));
    });
    expect(await rejection(Session.load(model, other))).toMatchObject({ code: "invalid-argument", argument: "path" });
  });

  test("nor a pool's, nor a model's folder", async () => {
    using pool = StatePool.create(device, { slots: 2, layers: 1, keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, convWidth: 4 });
    using state = pool.allocate();
    expect(() => pool.save([state], one)).toThrow("path");
    expect(() => pool.load(other)).toThrow("path");
    expect(existsSync(one)).toBe(true); // the file of U+FFFD, which the save would have replaced
    expect(await rejection(LanguageModel.load(device, one))).toMatchObject({ code: "invalid-argument", argument: "path" });
  });
});
