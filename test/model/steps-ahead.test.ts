/** Greedy sessions: the next step runs before its tokens are known here. It is seen only in its results. */
import { readFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { embedding } from "../../lib/index.ts";
import type { GenerateOptions, LanguageModel, Piece } from "../../lib/model.ts";
import { RunAhead, paysAhead } from "../../lib/model/run-ahead.ts";
import { SlotLedger } from "../../lib/states/slot-ledger.ts";
import { StepAhead } from "../../lib/states/step-ahead.ts";
import { openDevice } from "../support/devices.ts";
import { failAt } from "../support/faults.ts";
import { scratch } from "../support/files.ts";
import { openTiny, textOf } from "../support/models.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";
import { coldRun, collect, tokensOf } from "../support/sessions.ts";
import { countStepsAhead } from "../support/steps-ahead.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();
const all = { ignoreModelStops: true } as const;
const memory = { states: 8, pages: { count: 64, tokens: 16 } };

/** Keeps steps from running ahead. */
const without = () => replace(RunAhead.prototype, "run", () => () => undefined);

describe("what runs ahead", () => {
  test("the steps of a greedy answer, except where a page begins", async () => {
    using model = await openTiny(device, memory);
    const prompt = textOf(1, 9);
    const cold = await coldRun(model, prompt, 40);
    for (const options of [{}, { temperature: 0.8, topK: 1, seed: 3 }] as const) {
      using counts = countStepsAhead();
      using session = model.session().append(prompt);
      expect(await tokensOf(session.generate({ ...all, ...options, maxTokens: 40 }))).toEqual(cold.tokens);
      // The first step reads the prompt, and the second one comes after it; pages begin after 16, 32 and 48 tokens.
      expect(counts.taken).toBe(40 - 2 - 2);
      expect(counts.committed).toBe(counts.taken);
      // The last token is read now, in a state that the steps ahead have left.
      const more = await coldRun(model, [...prompt, ...cold.tokens], 1);
      expect(bitsEqual(await session.logits(), more.logits[0]!)).toBe(true);
    }
  });

  test("nothing where steps take long on a CPU", () => {
    const pays = (["cpu", "metal"] as const).map((backend) => [1e6, 1e9].map((bytes) => paysAhead({ backend }, bytes)));
    expect(pays).toEqual([[true, false], [true, true]]);
  });

  test.each<[string, GenerateOptions]>([
    ["top-k", { temperature: 1, topK: 20, seed: 1 }],
    ["a penalty", { repetitionPenalty: 1.3 }],
    ["log-probabilities", { logprobs: true }],
    ["processors", { processors: [() => {}] }],
    ["biases", { logitBias: { 3: 1 } }],
    ["barred tokens", { minTokens: 12, ignoreModelStops: false }],
    ["guesses", { drafts: true }],
  ])("not those of an answer with %s", async (_, options) => {
    using model = await openTiny(device, memory);
    using counts = countStepsAhead();
    using session = model.session().append(textOf(2, 9));
    await collect(session.generate({ ...all, ...options, maxTokens: 12 }));
    expect(counts).toMatchObject({ committed: 0, taken: 0 });
  });

  test("those of several sessions, while all of them are greedy", async () => {
    using model = await openTiny(device, memory);
    const prompts = [3, 4, 5].map((seed) => textOf(seed, 4 + seed));
    const cold = [];
    for (const prompt of prompts) cold.push((await coldRun(model, prompt, 24)).tokens);
    using counts = countStepsAhead();
    using sessions = new DisposableStack();
    const run = (i: number, options: GenerateOptions = {}) => tokensOf(sessions.use(model.session().append(prompts[i]!)).generate({ ...all, maxTokens: 24 - 5 * i, ...options }));
    const before = model.steps;
    expect(await Promise.all([0, 1, 2].map((i) => run(i)))).toEqual(cold.map((tokens, i) => tokens.slice(0, 24 - 5 * i)));
    expect(model.steps - before).toBe(24);
    expect(counts.taken).toBeGreaterThan(12);
    const { committed } = counts;
    const [greedy] = await Promise.all([run(0, { maxTokens: 8 }), run(1, { maxTokens: 9, temperature: 1, topK: 5, seed: 1 })]);
    expect(greedy).toEqual(cold[0]!.slice(0, 8));
    expect(counts.committed).toBe(committed);
  });

  test("ever fewer steps, where others come in between each time", async () => {
    using model = await openTiny(device, memory);
    using counts = countStepsAhead();
    using sequence = model.sequence();
    using session = model.session().append(textOf(7, 9));
    for await (const { token } of session.generate({ ...all, maxTokens: 30 })) await model.run([{ sequence, tokens: [token] }]);
    expect(counts.taken).toBe(0);
    // After 1, 3, 7 and 15 more steps.
    expect(counts.committed).toBeLessThanOrEqual(4);
    expect(counts.committed).toBeGreaterThan(2);
  });

  test("none together with what others have encoded", async () => {
    using model = await openTiny(device, memory);
    const cold = await coldRun(model, textOf(8, 5), 10);
    using session = model.session().append(textOf(8, 5));
    const pieces = session.generate({ ...all, maxTokens: 10 });
    const given = [(await pieces.next()).value!.token, (await pieces.next()).value!.token];
    const out = device.tensor("f32", [1, 1]);
    const op = embedding({ weight: device.tensorFrom("f32", [1, 1], [7]), ids: [0], out });
    using counts = countStepsAhead();
    for (const drop of [true, false]) {
      // The step ahead is used, and the one after it would be committed with the op.
      const { committed } = counts;
      device.encode(op);
      given.push((await pieces.next()).value!.token);
      expect(counts.committed).toBe(committed);
      if (drop) device.discard();
      given.push((await pieces.next()).value!.token, (await pieces.next()).value!.token);
    }
    expect(counts.committed).toBeGreaterThan(0);
    expect([...given, ...(await tokensOf(pieces))]).toEqual(cold.tokens);
    await device.finish();
    expect(out.data[0]).toBe(7);
  });

  test("none where no slot is unused", async () => {
    using model = await openTiny(device, { states: 1, pages: { count: 8, tokens: 16 } });
    const cold = await coldRun(model, textOf(6, 5), 12);
    using counts = countStepsAhead();
    using session = model.session().append(textOf(6, 5));
    expect(await tokensOf(session.generate({ ...all, maxTokens: 12 }))).toEqual(cold.tokens);
    expect(counts).toMatchObject({ committed: 0, taken: 0 });
  });
});

type Situation = (model: LanguageModel, path: () => string) => Promise<unknown>;
const left = async (pieces: AsyncIterable<Piece>, after: number): Promise<number[]> => {
  const given: number[] = [];
  for await (const { token } of pieces) if (given.push(token) === after) break;
  return given;
};

const situations: Readonly<Record<string, Situation>> = {
  "an answer that is left, saved, and continued": async (model, path) => {
    using session = model.session().append(textOf(11, 9));
    const given = await left(session.generate({ ...all }), 5);
    const file = path();
    await session.save(file);
    return { given, file: readFileSync(file).toString("base64"), more: await tokensOf(session.generate({ ...all, maxTokens: 9 })), logits: [...(await session.logits())] };
  },
  "an answer that ends by a token, and the next message": async (model) => {
    const { tokens } = await coldRun(model, textOf(12, 9), 6);
    using session = model.session().append(textOf(12, 9));
    const pieces = await collect(session.generate({ ...all, stopTokens: [tokens[4]!] }));
    session.append(textOf(13, 5));
    return { pieces, more: await tokensOf(session.generate({ ...all, maxTokens: 9 })), usage: session.usage };
  },
  "an answer that is aborted, and others with its prefix": async (model) => {
    using cache = model.cache({ bytes: 1e9, step: 3 });
    const controller = new AbortController();
    const options = { ...all, signal: controller.signal };
    using session = model.session({ cache }).append(textOf(14, 20));
    const given: number[] = [];
    const failed = await (async () => {
      for await (const { token } of session.generate(options)) if (given.push(token) === 6) controller.abort(new Error("enough"));
    })().then(() => undefined, (error: unknown) => (error as Error).message);
    using other = model.session({ cache }).append([...textOf(14, 20), ...given, 1, 2]);
    const more = await tokensOf(other.generate({ ...all, maxTokens: 6 }));
    return { given, failed, more, usage: other.usage, kept: [model.freeStates, model.freePages] };
  },
  "a session that is disposed of on the way": async (model) => {
    const session = model.session().append(textOf(15, 9));
    const pieces = session.generate({ ...all });
    for (let i = 0; i < 5; i++) await pieces.next();
    const before = [model.freeStates, model.freePages];
    session[Symbol.dispose]();
    return { before, after: [model.freeStates, model.freePages] };
  },
  "a fork between two tokens": async (model) => {
    using session = model.session().append(textOf(16, 9));
    const pieces = session.generate({ ...all, maxTokens: 14 });
    for (let i = 0; i < 5; i++) await pieces.next();
    using fork = session.fork();
    const free = [model.freeStates, model.freePages];
    const [rest, other] = await Promise.all([tokensOf(pieces), tokensOf(fork.append([7]).generate({ ...all, maxTokens: 9 }))]);
    return { free, rest, other, logits: [...(await session.logits()), ...(await fork.logits())] };
  },
  "sequences of the caller that take every slot between two tokens": async (model) => {
    using session = model.session().append(textOf(17, 9));
    const pieces = session.generate({ ...all, maxTokens: 14 });
    const given: number[] = [];
    for (let i = 0; i < 5; i++) given.push((await pieces.next()).value!.token);
    using others = new DisposableStack();
    const found: number[][] = [];
    for (let i = 0; model.freeStates > 0; i++) {
      const sequence = others.use(model.sequence());
      const [result] = await model.run([{ sequence, tokens: textOf(18 + i, 6) }]);
      found.push([...result!.logits.subarray(0, 8)]);
    }
    given.push(...(await tokensOf(pieces)));
    return { given, found, logits: [...(await session.logits())] };
  },
  "sequences of the caller that take every slot between two tokens, and run later": async (model) => {
    using session = model.session().append(textOf(17, 9));
    const pieces = session.generate({ ...all, maxTokens: 14 });
    const given: number[] = [];
    const next = async (count: number) => {
      for (let i = 0; i < count; i++) given.push((await pieces.next()).value!.token);
    };
    await next(5);
    using others = new DisposableStack();
    const sequences = Array.from({ length: model.freeStates }, () => others.use(model.sequence()));
    await next(1);
    const logits: number[] = [];
    for (const [i, sequence] of sequences.entries()) {
      const [result] = await model.run([{ sequence, tokens: textOf(18 + i, 6) }]);
      logits.push(...result!.logits.subarray(0, 8));
    }
    await next(3);
    return { given, logits };
  },
  "a run of the caller after each token": async (model) => {
    using sequence = model.sequence();
    using session = model.session().append(textOf(19, 9));
    const given: (number | number[])[] = [];
    for await (const { token } of session.generate({ ...all, maxTokens: 12 })) {
      const [result] = await model.run([{ sequence, tokens: [token] }]);
      given.push(token, [...result!.logits.subarray(0, 4)]);
    }
    return given;
  },
  "a session that comes while another one answers": async (model) => {
    using session = model.session().append(textOf(20, 9));
    const pieces = session.generate({ ...all, maxTokens: 16 });
    for (let i = 0; i < 5; i++) await pieces.next();
    using late = model.session().append(textOf(21, 30));
    return await Promise.all([tokensOf(pieces), tokensOf(late.generate({ ...all, maxTokens: 10 }))]);
  },
};

describe("nothing shows a step ahead", () => {
  const resultOf = async (name: string) => {
    using model = await openTiny(device, memory);
    const result = await situations[name]!(model, () => files.newPath());
    return { result, free: [model.freeStates, model.freePages], steps: model.steps };
  };

  test.each(Object.keys(situations))("%s", async (name) => {
    using counts = countStepsAhead();
    const found = await resultOf(name);
    expect(counts.committed).toBeGreaterThan(0);
    using _ = without();
    expect(found).toEqual(await resultOf(name));
  });

  test("a slot that was taken would be noticed", async () => {
    const name = "sequences of the caller that take every slot between two tokens, and run later";
    const found = await resultOf(name);
    using _ = replace(SlotLedger.prototype, "canFollow", () => (() => true) as Method);
    expect(found).not.toEqual(await resultOf(name));
  });
});

describe("a step ahead that fails", () => {
  const prompt = textOf(30, 9);
  const answer = async (model: LanguageModel, fail: () => void) => {
    const session = model.session().append(prompt);
    const pieces = session.generate({ ...all, maxTokens: 14 });
    const given: number[] = [];
    for (let i = 0; i < 4; i++) given.push((await pieces.next()).value!.token);
    fail(); // the step ahead of the next token was committed already, and that of the token after it follows
    given.push((await pieces.next()).value!.token);
    return { session, pieces, given };
  };

  test("and is not needed is never heard of", async () => {
    using model = await openTiny(device, memory);
    const cold = await coldRun(model, prompt, 14);
    const { session, pieces, given } = await answer(model, () => failAt(device, "run"));
    await pieces.return(undefined);
    await device.finish();
    device.wait();
    session.append([1, 2]);
    const other = await coldRun(model, [...prompt, ...given, 1, 2], 6);
    expect(await tokensOf(session.generate({ ...all, maxTokens: 6 }))).toEqual(other.tokens);
    expect(given).toEqual(cold.tokens.slice(0, 5));
    session[Symbol.dispose]();
  });

  test("and is needed fails the step that it is, and the session goes on from its tokens", async () => {
    using model = await openTiny(device, memory);
    const cold = await coldRun(model, prompt, 14);
    const { session, pieces, given } = await answer(model, () => failAt(device, "run"));
    await expect(pieces.next()).rejects.toMatchObject({ code: "device" });
    await device.finish();
    expect(given).toEqual(cold.tokens.slice(0, 5));
    expect(await tokensOf(session.generate({ ...all, maxTokens: 9 }))).toEqual(cold.tokens.slice(5));
    expect([model.freeStates, session.length]).toEqual([memory.states - 1, prompt.length + 14]);
    session[Symbol.dispose]();
  });

  test("before it is committed is done without", async () => {
    using model = await openTiny(device, memory);
    const cold = await coldRun(model, prompt, 14);
    const { session, pieces, given } = await answer(model, () => failAt(device, "commit"));
    using counts = countStepsAhead();
    expect([...given, ...(await tokensOf(pieces))]).toEqual(cold.tokens);
    expect(counts.taken).toBeGreaterThan(0);
    session[Symbol.dispose]();
  });
});

test("a model may be disposed of while a step runs ahead", async () => {
  const model = await openTiny(device, memory);
  const session = model.session().append(textOf(40, 9));
  const pieces = session.generate({ ...all });
  for (let i = 0; i < 5; i++) await pieces.next();
  using _ = replace(StepAhead.prototype, "take", () => (() => { throw new Error("taken"); }) as Method);
  model[Symbol.dispose]();
  await expect(pieces.next()).rejects.toMatchObject({ code: "disposed" });
  await device.finish();
});
