/**
 * Sessions that verify guesses: how many steps an answer takes, that nothing is read twice, and the effects of a shortage of
 * memory. The guesses are those of an oracle, so that each number of right ones occurs.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { LoadModelOptions } from "../../lib/model.ts";
import type { Entry } from "../../lib/model/batch.ts";
import { memoryOf } from "../../lib/model/model-memory.ts";
import { NgramDrafter } from "../../lib/model/ngram-drafter.ts";
import { Runner } from "../../lib/model/runner.ts";
import { Session } from "../../lib/model.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { openTiny, rejection, textOf } from "../support/models.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";
import { coldRun, collect, tokensOf } from "../support/sessions.ts";

const device = openDevice(2);
afterAll(() => device.close());
const { newPath } = scratch();
const all = { ignoreModelStops: true } as const;
const vocabulary = 53;

/** The guesses are the coming tokens, except that every `wrong`-th token of the answer is guessed wrongly. */
function oracle(prompt: readonly number[], tokens: readonly number[], wrong = Infinity): Disposable {
  return replace(NgramDrafter.prototype, "draft", () => function (this: NgramDrafter, most: number) {
    const at = this.length - prompt.length;
    return tokens.slice(at, at + most).map((token, i) => ((at + i) % wrong === wrong - 1 ? (token + 1) % vocabulary : token));
  } as Method);
}

/** Counts the tokens that runs read, without the guesses. */
function readingCounted(): Disposable & { certain: number } {
  const counter = { certain: 0 };
  const replaced = replace(Runner.prototype, "run", (original) => function (this: Runner, op: string, entries: readonly Entry[]) {
    for (const { tokens, drafts } of entries) counter.certain += tokens.length - drafts;
    return (original as (this: Runner, op: string, entries: readonly Entry[]) => unknown).call(this, op, entries);
  } as Method);
  return Object.assign(counter, { [Symbol.dispose]: () => replaced[Symbol.dispose]() });
}

const forms: readonly [string, Partial<LoadModelOptions>][] = [
  ["pages of 8", {}],
  ["pages of one token", { pages: { count: 90, tokens: 1 } }],
  ["pages of bf16", { pages: { count: 40, tokens: 5, dtype: "bf16" } }],
];

describe.each(forms)("%s", (_, options) => {
  test("a step chooses as many tokens as guesses are right, and one more; each token is read once", async () => {
    using model = await openTiny(device, options);
    const prompt = textOf(1, 9);
    const { tokens, logits } = await coldRun(model, prompt, 46);
    for (const wrong of [Infinity, 2, 5, 1]) {
      using _oracle = oracle(prompt, tokens, wrong);
      using session = model.session().append(prompt);
      const before = model.steps;
      const plain = 45;
      using counter = readingCounted();
      expect(await tokensOf(session.generate({ ...all, maxTokens: plain, drafts: true }))).toEqual(tokens.slice(0, plain));
      if (wrong === Infinity) expect(model.steps - before).toBe(5);
      else if (wrong === 1) expect(model.steps - before).toBe(plain);
      else expect(model.steps - before).toBe(plain / wrong + (wrong === 2 ? 0.5 : 0));
      // All accepted guesses are read as guesses: only the prompt and one token of each step are certain.
      expect(counter.certain).toBe(prompt.length + model.steps - before - 1);
      expect([session.length, session.read]).toEqual([prompt.length + plain, prompt.length + plain - 1]);
      expect(bitsEqual(await session.logits(), logits[plain]!)).toBe(true);
      expect(model.steps - before).toBeGreaterThan(0);
    }
  });

  test("a consumer may leave after any token: the session has those that were given out, and goes on without reading twice", async () => {
    using model = await openTiny(device, options);
    const prompt = textOf(2, 7);
    const { tokens, logits } = await coldRun(model, prompt, 30);
    for (const wrong of [Infinity, 3]) {
      using _oracle = oracle(prompt, tokens, wrong);
      for (let given = 1; given < 22; given++) {
        using session = model.session().append(prompt);
        const had: number[] = [];
        for await (const { token } of session.generate({ ...all, drafts: { tokens: 6 } })) {
          had.push(token);
          if (had.length === given) break;
        }
        expect(had).toEqual(tokens.slice(0, given));
        expect([session.length, session.read]).toEqual([prompt.length + given, prompt.length + given - 1]);
        using counter = readingCounted();
        using fork = session.fork();
        expect(await tokensOf(session.generate({ ...all, drafts: true, maxTokens: 4 }))).toEqual(tokens.slice(given, given + 4));
        expect(bitsEqual(await fork.logits(), logits[given]!)).toBe(true);
        expect(counter.certain).toBeLessThanOrEqual(1 + 4);
      }
    }
  });
});

describe("between two pieces", () => {
  test("a fork, a save and others that need memory leave the answer as it is", async () => {
    using model = await openTiny(device, { states: 6, pages: { count: 60, tokens: 3 } });
    const prompt = textOf(3, 8);
    const { tokens, logits } = await coldRun(model, prompt, 34);
    using _oracle = oracle(prompt, tokens, 7);
    for (const what of ["fork", "save", "logits of a fork"] as const) {
      for (const at of [1, 3, 9, 12]) {
        using session = model.session().append(prompt);
        const had: number[] = [];
        for await (const { token } of session.generate({ ...all, drafts: true, maxTokens: 30 })) {
          had.push(token);
          if (had.length !== at) continue;
          if (what === "save") {
            const path = newPath();
            await session.save(path);
            using loaded = await Session.load(model, path);
            expect([loaded.length, loaded.read]).toEqual([prompt.length + at, prompt.length + at - 1]);
            expect(await tokensOf(loaded.generate({ ...all, maxTokens: 3 }))).toEqual(tokens.slice(at, at + 3));
          } else {
            using fork = session.fork();
            expect([fork.length, fork.read]).toEqual([prompt.length + at, prompt.length + at - 1]);
            if (what === "fork") expect(await tokensOf(fork.generate({ ...all, maxTokens: 3 }))).toEqual(tokens.slice(at, at + 3));
            else expect(bitsEqual(await fork.logits(), logits[at]!)).toBe(true);
          }
        }
        expect(had).toEqual(tokens.slice(0, 30));
      }
    }
    expect([model.freeStates, model.freePages]).toEqual([6, 60]);
  });

  test("a consumer that waits keeps no pages from others that its tokens do not need", async () => {
    using model = await openTiny(device, { states: 3, pages: { count: 8, tokens: 2 } });
    const prompt = textOf(4, 3);
    const { tokens } = await coldRun(model, prompt, 11);
    using _oracle = oracle(prompt, tokens);
    using slow = model.session().append(prompt);
    const pieces = slow.generate({ ...all, drafts: true, maxTokens: 11 });
    expect((await pieces.next()).value!.token).toBe(tokens[0]!);
    // The prompt and eight right guesses take six pages.
    expect(model.freePages).toBe(2);
    using other = model.session({ whenFull: "error" }).append(textOf(5, 11));
    await other.logits();
    expect(model.freePages).toBe(0);
    other[Symbol.dispose]();
    expect([tokens[0]!, ...(await tokensOf(pieces))]).toEqual(tokens);
  });
});

test("an answer that is left without an end, in the middle of right guesses, gives back all that it has when it is collected", async () => {
  using model = await openTiny(device, { states: 3, pages: { count: 16, tokens: 4 } });
  const { records } = memoryOf(model);
  const prompt = textOf(2, 7);
  const { tokens } = await coldRun(model, prompt, 12);
  using _oracle = oracle(prompt, tokens);
  await (async () => {
    await model.session().append(prompt).generate({ ...all, drafts: true }).next();
    expect([model.freeStates, model.freePages, records.free]).toEqual([2, 12, 17]);
  })();
  const until = performance.now() + 20_000; // a time limit
  while (records.free < records.capacity && performance.now() < until) {
    Bun.gc(true);
    await Bun.sleep(5);
  }
  expect([model.freeStates, model.freePages, records.free]).toEqual([3, 16, 32]);
  using session = model.session().append(prompt);
  expect(await tokensOf(session.generate({ ...all, drafts: true, maxTokens: 12 }))).toEqual(tokens);
}, 30_000);

describe("where memory is short", () => {
  test("an answer that fits without drafts fits with them, whatever is guessed", async () => {
    for (const [tokensOfPage, answer] of [[1, 12], [4, 17], [8, 30]] as const) {
      const prompt = textOf(6, 5);
      const count = Math.ceil((prompt.length + answer) / tokensOfPage);
      using roomy = await openTiny(device, { pages: { count: 60, tokens: 4 } });
      const { tokens } = await coldRun(roomy, prompt, answer);
      for (const wrong of [Infinity, 1, 3]) {
        using _oracle = oracle(prompt, tokens, wrong);
        for (const whenFull of ["error", "wait"] as const) {
          using model = await openTiny(device, { states: 2, pages: { count, tokens: tokensOfPage } });
          using session = model.session({ whenFull }).append(prompt);
          expect(await tokensOf(session.generate({ ...all, maxTokens: answer, drafts: true }))).toEqual(tokens);
          expect((await rejection(collect(session.append(textOf(7, 2 * tokensOfPage)).generate({ ...all, drafts: true })))).code).toBe("out-of-memory");
        }
      }
    }
  });

  test("many sessions that draft share the records", async () => {
    using model = await openTiny(device, { states: 9, draftTokens: 7, pages: { count: 200, tokens: 4 } });
    const prompts = Array.from({ length: 8 }, (_, i) => textOf(i + 10, 4 + i));
    const cold = [];
    for (const prompt of prompts) cold.push((await coldRun(model, prompt, 25)).tokens);
    using sessions = new DisposableStack();
    const answers = prompts.map((prompt) => tokensOf(sessions.use(model.session()).append(prompt).generate({ ...all, maxTokens: 25, drafts: { longest: 1, shortest: 1 } })));
    expect(await Promise.all(answers)).toEqual(cold);
  });

  test("a model without records verifies nothing, and says the same", async () => {
    using model = await openTiny(device, { draftTokens: 0 });
    const prompt = textOf(8, 6);
    const { tokens } = await coldRun(model, prompt, 12);
    using _oracle = oracle(prompt, tokens);
    const before = model.steps;
    using session = model.session().append(prompt);
    expect(await tokensOf(session.generate({ ...all, maxTokens: 12, drafts: true }))).toEqual(tokens);
    expect(model.steps - before).toBe(12);
  });
});

test("a stop string, or a stop token, among the guesses of the last step runs nothing more", async () => {
  using model = await LanguageModel.load(device, resolve(import.meta.dir, "../golden/models/qwen3_5-mlx-mixed"), { states: 4, pages: 32 });
  const options = { temperature: 2, seed: 3, ...all };
  const prompt = model.text.encode("Hello");
  const { tokens, logits } = await coldRun(model, prompt, 40, options);
  const texts = tokens.map((_, i) => model.text.tokenizer.decode(tokens.slice(0, i + 1)));
  using _oracle = replace(NgramDrafter.prototype, "draft", () => function (this: NgramDrafter, most: number) {
    const at = this.length - prompt.length;
    return tokens.slice(at, at + most);
  } as Method);
  let strings = 0;
  for (let last = 1; last < 26; last++) {
    const stop = texts[last]!.slice(-2);
    const ends = tokens[last]!;
    if (stop === "" || texts[last]!.includes("\ufffd")) continue;
    strings++;
    for (const how of [{ stop }, { stopTokens: [ends] }]) {
      const found = "stop" in how ? texts.findIndex((text) => text.includes(stop)) : tokens.indexOf(ends);
      using session = model.session().append(prompt);
      const before = model.steps;
      const pieces = await collect(session.generate({ ...options, ...how, drafts: true }));
      expect(pieces.map(({ token }) => token)).toEqual(tokens.slice(0, found + 1));
      expect(pieces.at(-1)!.end).toBe("stop" in how ? "string" : "token");
      // The first step and each further one give nine tokens.
      expect(model.steps - before).toBe(1 + Math.floor(found / 9));
      expect([session.length, session.read]).toEqual([prompt.length + found + 1, prompt.length + found]);
      expect(bitsEqual(await session.logits(), logits[found + 1]!)).toBe(true);
      expect(model.steps - before).toBe(2 + Math.floor(found / 9));
    }
  }
  expect(strings).toBeGreaterThan(5);
});
