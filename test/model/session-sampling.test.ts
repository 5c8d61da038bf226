/** Sampling options in sessions: the cold run's tokens, whatever else runs and however the answer is cut. */
import { afterAll, describe, expect, test } from "bun:test";
import type { GenerateOptions, LogitsProcessor, Piece } from "../../lib/model.ts";
import { Session } from "../../lib/model.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { openTiny, rejection, textOf } from "../support/models.ts";
import { coldRun, collect, tokensOf } from "../support/sessions.ts";

const device = openDevice(2);
afterAll(() => device.close());
const { newPath } = scratch();
const all = { ignoreModelStops: true } as const;
/** Prefers the token whose id follows that of the last one. */
const ascending: LogitsProcessor = (logits, tokens) => void (logits[(tokens.at(-1)! + 1) % logits.length]! += 4);
const alone: LogitsProcessor = (logits) => logits.forEach((logit, id) => (logits[id] = logit * 0.75));

const kinds: readonly [string, GenerateOptions][] = [
  ["nothing", {}],
  ["the most likely tokens", { temperature: 1.4, topK: 12, topP: 0.9, minP: 0.02, seed: 6 }],
  ["penalties", { temperature: 1, seed: 3, presencePenalty: 1.5, frequencyPenalty: 0.5, repetitionPenalty: 1.2, repetitionWindow: 5 }],
  ["greedy penalties", { presencePenalty: 0.5, frequencyPenalty: 2, repetitionPenalty: 1.3, repetitionWindow: 1 }],
  ["biases", { temperature: 2, topP: 0.9, seed: 8, logitBias: { 3: 4, 7: -Infinity, 20: -100, 21: 3.5 } }],
  ["the only tokens left", { temperature: 1, seed: 2, logitBias: new Map([[4, Infinity], [5, Infinity], [6, Infinity], [7, -3]]) }],
  ["processors", { temperature: 0.7, topK: 12, seed: 9, processors: [ascending, alone] }],
  ["everything", { temperature: 1.3, topK: 30, minP: 0.01, seed: 1, processors: [ascending], frequencyPenalty: 0.3, repetitionPenalty: 0.9, logitBias: { 1: 2 } }],
];

describe.each(kinds)("with %s", (_, options) => {
  test("tokens are the cold run's, with drafts or without, in pieces, forked, from a file, and next to others", async () => {
    using model = await openTiny(device, { states: 8, pages: { count: 120, tokens: 8 } });
    const prompt = textOf(3, 30);
    const { tokens } = await coldRun(model, prompt, 36, options);
    for (const drafts of [false, true, { tokens: 3, longest: 2, shortest: 1 }]) {
      const given = { ...options, ...all, drafts };
      using busy = model.session().append(textOf(9, 20));
      const other = tokensOf(busy.generate({ temperature: 1, seed: 4, ...all, maxTokens: 40 }));
      using session = model.session().append(prompt);
      const answer = await tokensOf(session.generate({ ...given, maxTokens: 12 }));
      using fork = session.fork();
      const path = newPath();
      await session.save(path);
      using loaded = await Session.load(model, path);
      for (const one of [session, fork, loaded]) {
        expect([...answer, ...(await tokensOf(one.generate({ ...given, maxTokens: 24 })))]).toEqual(tokens);
      }
      await other;
    }
  });
});

describe("penalties", () => {
  test("count the answer: what was generated since the last appended or end token", async () => {
    using model = await openTiny(device, { states: 4 });
    const options = { presencePenalty: 50, ...all };
    using session = model.session().append(textOf(2, 10));
    const answer = await tokensOf(session.generate({ ...options, maxTokens: 20 }));
    expect(new Set(answer).size).toBe(20); // with a penalty of 50, no token comes again
    session.append([answer[0]!, 1]);
    const { tokens } = await coldRun(model, [...session.tokens], 8, options);
    const next = await tokensOf(session.generate({ ...options, maxTokens: 8, stopTokens: [tokens[3]!] }));
    expect(next).toEqual(tokens.slice(0, 4));
    // After an end token, another answer begins.
    const after = await coldRun(model, [...session.tokens], 4, options);
    expect(await tokensOf(session.generate({ ...options, maxTokens: 4 }))).toEqual(after.tokens);
  });
});

describe("processors", () => {
  test("are called once for each position, in order, with drafts or without", async () => {
    using model = await openTiny(device, { states: 4 });
    const prompt = [1, 2, 3, 1, 2, 3, 1, 2];
    for (const drafts of [false, true]) {
      const lengths: number[] = [];
      const seen: number[][] = [];
      const watch: LogitsProcessor = (logits, tokens) => {
        logits[(tokens.at(-1)! % 3) + 1]! += 20; // 1, 2, 3, 1, …
        lengths.push(tokens.length);
        seen.push([...tokens]);
      };
      using session = model.session().append(prompt);
      const before = model.steps;
      const tokens = await tokensOf(session.generate({ ...all, drafts, processors: [watch], maxTokens: 14 }));
      expect(tokens).toEqual([3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1]);
      expect(lengths).toEqual(tokens.map((_, i) => prompt.length + i));
      expect(seen.at(-1)).toEqual([...prompt, ...tokens.slice(0, -1)]);
      if (drafts) expect(model.steps - before).toBeLessThan(5);
    }
  });

  test("end the generation by their error, after the tokens before it; the session goes on", async () => {
    using model = await openTiny(device, { states: 4 });
    const prompt = [1, 2, 3, 1, 2, 3, 1, 2];
    const own = new Error("mine");
    const { tokens } = await coldRun(model, prompt, 12, { processors: [ascending] });
    for (const drafts of [false, true]) {
      let calls = 0;
      const fails: LogitsProcessor = (logits, before) => {
        ascending(logits, before);
        if (++calls > 5) throw own;
      };
      using session = model.session().append(prompt);
      const given: number[] = [];
      let error: unknown;
      try {
        for await (const { token } of session.generate({ ...all, drafts, processors: [fails] })) given.push(token);
      } catch (caught) {
        error = caught;
      }
      expect([error, given, calls]).toEqual([own, tokens.slice(0, 5), 6]);
      expect(await tokensOf(session.generate({ ...all, drafts, processors: [ascending], maxTokens: 7 }))).toEqual(tokens.slice(5));
    }
  });
});

describe("the least number of tokens", () => {
  test("bars end tokens until then, and no longer", async () => {
    using model = await openTiny(device, { states: 4 });
    const prompt = textOf(5, 12);
    const stopTokens = [4, 5];
    const likely = { logitBias: { 4: 90, 5: 90 }, stopTokens };
    for (const drafts of [false, true]) {
      for (const minTokens of [0, 1, 5, 9]) {
        using session = model.session().append(prompt);
        const pieces = await collect(session.generate({ ...likely, minTokens, drafts, maxTokens: 10 }));
        expect(pieces.length).toBe(minTokens + 1);
        expect(pieces.slice(0, -1).some(({ token }) => stopTokens.includes(token))).toBe(false);
        expect(pieces.at(-1)!.end).toBe("token");
      }
    }
    using session = model.session().append(prompt);
    expect((await rejection(session.complete({ minTokens: 3, maxTokens: 2 }))).argument).toBe("minTokens");
    const none = await rejection(session.complete({ minTokens: 2, stopTokens: [4], logitBias: { 4: Infinity } }));
    expect([none.code, none.argument]).toEqual(["invalid-argument", "minTokens, logitBias"]);
  });
});

describe("the most likely tokens", () => {
  test("come with each piece, from the model's own logits", async () => {
    using model = await openTiny(device, { states: 4 });
    const prompt = [1, 2, 3, 1, 2, 3, 1, 2];
    const options = { temperature: 1.5, seed: 2, frequencyPenalty: 1, logitBias: { 3: -Infinity } };
    const { tokens, logits } = await coldRun(model, prompt, 12, options);
    for (const drafts of [false, true]) {
      using session = model.session().append(prompt);
      const pieces: Piece[] = await collect(session.generate({ ...all, ...options, drafts, maxTokens: 12, topLogprobs: 4 }));
      expect(pieces.map(({ token }) => token)).toEqual(tokens);
      for (const [i, { token, logprob, topLogprobs }] of pieces.entries()) {
        const row = [...logits[i]!];
        const scale = Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0));
        const order = [...row.keys()].sort((a, b) => row[b]! - row[a]! || a - b).slice(0, 4);
        expect(logprob!).toBeCloseTo(row[token]! - scale, 9);
        expect(topLogprobs!.map((one) => one.token)).toEqual(order);
        for (const one of topLogprobs!) expect(one.logprob).toBeCloseTo(row[one.token]! - scale, 9);
      }
    }
  });
});

describe("several answers", () => {
  test("are those of single ones with the seeds that follow, and leave the session as it was", async () => {
    using model = await openTiny(device, { states: 3, pages: { count: 60, tokens: 8 } });
    const prompt = textOf(6, 25);
    for (const seed of [7, 2 ** 53 - 2]) {
      for (const drafts of [false, true]) {
        using session = model.session().append(prompt);
        const before = model.steps;
        const options = { temperature: 1, drafts, maxTokens: 9, ...all };
        const answers = await session.completeMany(5, { ...options, seed });
        expect(model.steps - before).toBeGreaterThan(0);
        expect([session.length, session.usage.generatedTokens]).toEqual([25, 0]);
        for (const [i, { tokens, usage, end }] of answers.entries()) {
          expect(tokens).toEqual((await coldRun(model, prompt, 9, { ...options, seed: (seed + i) % 2 ** 53 })).tokens);
          expect([usage.promptTokens, usage.cachedTokens, usage.generatedTokens, end]).toEqual([25, 25, 9, "length"]);
        }
        expect(new Set(answers.map(({ tokens }) => tokens.join())).size).toBeGreaterThan(3);
      }
    }
    expect(model.freeStates).toBe(3);
  });

  test("differ without a seed, and the same prompt can have more", async () => {
    using model = await openTiny(device);
    using session = model.session().append(textOf(6, 25));
    const seen = new Set<string>();
    for (let i = 0; i < 2; i++) for (const { tokens } of await session.completeMany(3, { temperature: 2, maxTokens: 12 })) seen.add(tokens.join());
    expect(seen.size).toBeGreaterThan(4);
    expect((await session.completeMany(1, { maxTokens: 0 }))[0]!.tokens).toEqual([]);
  });

  test("end together with the first error, or when aborted", async () => {
    using model = await openTiny(device);
    using session = model.session().append(textOf(6, 25));
    let calls = 0;
    const own = new Error("mine");
    const fails: LogitsProcessor = () => {
      if (++calls === 7) throw own;
    };
    expect(await session.completeMany(3, { ...all, processors: [fails] }).catch((error: unknown) => error)).toBe(own);
    const controller = new AbortController();
    const aborts: LogitsProcessor = () => controller.abort(own);
    expect(await session.completeMany(2, { ...all, processors: [aborts], signal: controller.signal }).catch((error: unknown) => error)).toBe(own);
    expect(model.freeStates).toBeGreaterThanOrEqual(3);
    expect((await session.completeMany(2, { maxTokens: 1 })).length).toBe(2);
    for (const [count, options, argument] of [[0, {}, "count"], [1025, {}, "count"], [1.5, {}, "count"], [2, { topK: -1 }, "topK"], [2, { zzz: 1 }, "zzz"]] as const) {
      expect((await rejection(session.completeMany(count, options as GenerateOptions))).argument).toBe(argument);
    }
    using empty = model.session();
    expect((await rejection(empty.completeMany(2))).code).toBe("state");
  });
});
