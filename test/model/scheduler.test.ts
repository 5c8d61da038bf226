/** Many sessions of one model: steps, turns, and what happens when states or pages are short. */
import { afterAll, describe, expect, test } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { GatedDeltaError } from "../../lib/errors.ts";
import type { Session } from "../../lib/model.ts";
import { openDevice } from "../support/devices.ts";
import { failAt } from "../support/faults.ts";
import { openTiny, textOf } from "../support/models.ts";
import { replace } from "../support/replace.ts";
import { coldRun, collect, tokensOf } from "../support/sessions.ts";

const device = openDevice(2);
afterAll(() => device.close());
const all = { ignoreModelStops: true } as const;

async function failure(run: () => unknown): Promise<GatedDeltaError> {
  const error = await (async () => run())().then(() => undefined, (reason: unknown) => reason);
  expect(error).toBeInstanceOf(GatedDeltaError);
  return error as GatedDeltaError;
}

async function later(turns: number): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe("steps", () => {
  test("sessions that generate at the same time share them", async () => {
    using model = await openTiny(device, { states: 8, pages: { count: 64, tokens: 8 } });
    const prompts = Array.from({ length: 6 }, (_, i) => textOf(i, 5 + i));
    const cold = [];
    for (const prompt of prompts) cold.push((await coldRun(model, prompt, 10)).tokens);
    using sessions = new DisposableStack();
    const before = model.steps;
    const answers = await Promise.all(prompts.map((prompt) => tokensOf(sessions.use(model.session()).append(prompt).generate({ ...all, maxTokens: 10 }))));
    expect(answers).toEqual(cold);
    expect(model.steps - before).toBe(10);
  });

  test("a long prompt is read in pieces, and takes no step from a session that generates", async () => {
    using model = await openTiny(device, { promptTokens: 16, batchTokens: 64, pages: { count: 128, tokens: 8 } });
    using quick = model.session().append(textOf(1, 5));
    using slow = model.session().append(textOf(2, 300));
    const before = model.steps;
    const order: string[] = [];
    const generate = async (name: string, session: Session, count: number) => {
      for await (const _ of session.generate({ ...all, maxTokens: count })) order.push(name);
    };
    await Promise.all([generate("quick", quick, 25), generate("slow", slow, 3)]);
    // The first step has both prompts; then 16 tokens of the long one beside each token of the other.
    expect(order.indexOf("slow")).toBeGreaterThanOrEqual(16);
    expect(order.indexOf("slow")).toBeLessThanOrEqual(20);
    expect(model.steps - before).toBeLessThanOrEqual(26);
    // Alone, it is read in pieces as long as go through the layers at a time.
    using alone = model.session().append(textOf(2, 300));
    const then = model.steps;
    await alone.logits();
    expect(model.steps - then).toBe(5);
  });

  test("prompts take turns", async () => {
    using model = await openTiny(device, { states: 4, batchTokens: 32, pages: { count: 128, tokens: 8 } });
    const done: number[] = [];
    const read = async (i: number, length: number) => {
      using session = model.session().append(textOf(i, length));
      await session.logits();
      done.push(i);
    };
    await Promise.all([read(0, 400), read(1, 30), read(2, 60)]);
    expect(done).toEqual([1, 2, 0]);
  });

  test("drafts: the same tokens in fewer steps", async () => {
    using model = await openTiny(device, { states: 3, pages: { count: 64, tokens: 8 } });
    const prompt = [39]; // of all single tokens the one whose answer repeats itself most
    const { tokens } = await coldRun(model, prompt, 120);
    const steps: number[] = [];
    for (const drafts of [false, true]) {
      const before = model.steps;
      using session = model.session().append(prompt);
      expect(await tokensOf(session.generate({ ...all, maxTokens: 120, drafts }))).toEqual(tokens);
      steps.push(model.steps - before);
    }
    expect(steps[0]).toBe(120);
    expect(steps[1]).toBeLessThan(80);
  });

  test("drafts go without guesses where no state is free for them", async () => {
    using model = await openTiny(device, { states: 1, pages: { count: 64, tokens: 8 } });
    const prompt = Array.from({ length: 60 }, (_, i) => i % 6);
    const { tokens } = await coldRun(model, prompt, 20);
    using session = model.session().append(prompt);
    expect(await tokensOf(session.generate({ ...all, maxTokens: 20, drafts: true }))).toEqual(tokens);
  });

  test("a run of the caller's is waited for", async () => {
    using model = await openTiny(device);
    const { tokens } = await coldRun(model, textOf(1, 9), 6);
    using sequence = model.sequence();
    using session = model.session().append(textOf(1, 9));
    const run = model.run([{ sequence, tokens: textOf(2, 200) }]);
    const answer = tokensOf(session.generate({ ...all, maxTokens: 6 }));
    await run;
    expect(await answer).toEqual(tokens);
  });
});

describe("when states are in use", () => {
  test("a session waits for one, and goes on when it is given back", async () => {
    using model = await openTiny(device, { states: 2 });
    const [a, b] = [model.session().append([1, 2]), model.session().append([3])];
    await Promise.all([a.logits(), b.logits()]);
    using c = model.session().append(textOf(1, 9));
    let done = false;
    const run = tokensOf(c.generate({ ...all, maxTokens: 3 })).finally(() => (done = true));
    await Bun.sleep(60);
    expect(done).toBe(false);
    a[Symbol.dispose]();
    b[Symbol.dispose]();
    expect(await run).toEqual((await coldRun(model, textOf(1, 9), 3)).tokens);
  });

  test("a sequence that is no session's is noticed too", async () => {
    using model = await openTiny(device, { states: 1 });
    const sequence = model.sequence();
    using idle = model.session();
    using session = model.session().append([1]);
    const run = tokensOf(session.generate({ ...all, maxTokens: 1 }));
    await Bun.sleep(10);
    sequence[Symbol.dispose]();
    expect((await run).length).toBe(1);
    expect(idle.length).toBe(0);
  });

  test("it is an error at once where that is asked for, and the session can be used later", async () => {
    using model = await openTiny(device, { states: 1 });
    const a = model.session().append([1]);
    await a.logits();
    using b = model.session({ whenFull: "error" }).append([2]);
    expect((await failure(() => b.logits())).code).toBe("out-of-memory");
    expect((await failure(() => collect(b.generate()))).code).toBe("out-of-memory");
    expect((await failure(() => a.fork())).code).toBe("out-of-memory");
    a[Symbol.dispose]();
    expect((await b.logits()).length).toBe(model.config.vocabSize);
  });

  test("errors name the session's call, and what can be done", async () => {
    using model = await openTiny(device, { states: 1 });
    using a = model.session().append([1]);
    await a.logits();
    const fork = await failure(() => a.fork());
    expect(fork.message).toStartWith("session.fork: expected a free state (`states` of LanguageModel.load");
    using b = model.session({ whenFull: "error" }).append([2]);
    expect((await failure(() => b.logits())).message).toMatch(/^session: expected a free state .*disposed.*whose 1 states are in use/);
  });

  test("who waits for a session that does nothing is told, once", async () => {
    using model = await openTiny(device, { states: 1 });
    const a = model.session().append([1]);
    await a.logits();
    const warned = Promise.withResolvers<Error & { readonly code?: string }>();
    let warnings = 0;
    let now = 0;
    using _ = replace(performance, "now", () => () => now);
    const listen = (warning: Error & { readonly code?: string }) => {
      if (warning.code !== "GATED_DELTA_WAIT") return;
      warnings++;
      warned.resolve(warning);
    };
    process.on("warning", listen);
    try {
      using b = model.session().append([2]);
      const run = b.logits();
      await Bun.sleep(40); // it waits by then, or begins to later
      expect(warnings).toBe(0);
      const passing = setInterval(() => (now += 100), 1);
      using __ = { [Symbol.dispose]: () => clearInterval(passing) };
      expect((await warned.promise).message).toMatch(/^1 of 2 sessions wait, and none runs: .*whenFull/);
      a[Symbol.dispose]();
      expect((await run).length).toBe(model.config.vocabSize);
      expect(warnings).toBe(1);
    } finally {
      process.off("warning", listen);
    }
  });

  test("the warning counts no earlier wait, and no time between two", async () => {
    using model = await openTiny(device, { states: 1 });
    const a = model.session().append([1]);
    await a.logits();
    let warnings = 0;
    let now = 0;
    using _ = replace(performance, "now", () => () => now);
    const listen = (warning: Error & { readonly code?: string }) => void (warnings += Number(warning.code === "GATED_DELTA_WAIT"));
    process.on("warning", listen);
    try {
      using b = model.session().append([2]);
      const controller = new AbortController();
      const ended = b.logits({ signal: controller.signal }).catch((error: Error) => error.message);
      await Bun.sleep(40);
      controller.abort(new Error("enough"));
      expect(await ended).toBe("enough");
      now += 2050;
      const run = b.logits();
      await Bun.sleep(40);
      a[Symbol.dispose]();
      await run;
      await later(3);
      expect(warnings).toBe(0);
    } finally {
      process.off("warning", listen);
    }
  });

  test("a wait can be aborted, and ends with its session", async () => {
    using model = await openTiny(device, { states: 1 });
    using a = model.session().append([1]);
    await a.logits();
    const b = model.session().append([2]);
    const controller = new AbortController();
    const aborted = b.logits({ signal: controller.signal }).catch((error: Error) => error.message);
    const disposed = (async () => {
      await aborted;
      return failure(() => b.logits());
    })();
    await later(3);
    controller.abort(new Error("enough"));
    expect(await aborted).toBe("enough");
    await later(3);
    b[Symbol.dispose]();
    expect((await disposed).code).toBe("disposed");
  });
});

describe("when pages are in use", () => {
  const small = { states: 4, pages: { count: 6, tokens: 4 } };

  test("a session waits until another one ends", async () => {
    using model = await openTiny(device, small);
    const a = model.session().append(textOf(1, 17));
    await a.logits();
    using b = model.session().append(textOf(2, 9));
    const run = tokensOf(b.generate({ ...all, maxTokens: 4 }));
    await Bun.sleep(30);
    expect(b.read).toBeLessThan(9);
    a[Symbol.dispose]();
    expect(await run).toEqual((await coldRun(model, textOf(2, 9), 4)).tokens);
  });

  test("where all wait for each other, the last one fails, and the others go on when it has ended", async () => {
    using model = await openTiny(device, small);
    const cold = (await coldRun(model, textOf(1, 5), 15)).tokens;
    const sessions = [1, 2, 3].map((seed) => model.session().append(textOf(seed, 5)));
    const runs = sessions.map(async (session) => {
      try {
        return await tokensOf(session.generate({ ...all, maxTokens: 15 }));
      } catch (error) {
        session[Symbol.dispose]();
        return (error as GatedDeltaError).code;
      }
    });
    const results = await Promise.all(runs);
    expect(results[0]).toEqual(cold);
    expect(results.filter((result) => result === "out-of-memory").length).toBeGreaterThanOrEqual(1);
    for (const session of sessions) session[Symbol.dispose]();
    expect(model.freePages).toBe(6);
  });

  test("what can never fit is an error", async () => {
    using model = await openTiny(device, small);
    using session = model.session().append(textOf(1, 25));
    expect((await failure(() => session.logits())).code).toBe("out-of-memory");
    using refused = model.session({ whenFull: "error" }).append(textOf(1, 25));
    expect((await failure(() => refused.logits())).message).toContain("pages");
  });
});

describe("a failed step", () => {
  test.each(["encode", "commit", "run"] as const)("(%s) ends the generations in it; their sessions can go on", async (stage) => {
    using model = await openTiny(device, { states: 4 });
    const prompts = [textOf(1, 12), textOf(2, 7)];
    using sessions = new DisposableStack();
    const both = prompts.map((prompt) => sessions.use(model.session()).append(prompt));
    await Promise.all(both.map((session) => session.logits()));
    const given = await Promise.all(both.map((session) => tokensOf(session.generate({ ...all, maxTokens: 2 }))));
    failAt(device, stage);
    const failed = await Promise.all(both.map((session) => failure(() => collect(session.generate({ ...all, drafts: true })))));
    expect(failed.map(({ code }) => code)).toEqual(["device", "device"]);
    for (const [i, session] of both.entries()) {
      // Tokens that were given out before it failed stay.
      const had = session.length - prompts[i]!.length;
      const { tokens, logits } = await coldRun(model, prompts[i]!, had + 3);
      expect(given[i]!).toEqual(tokens.slice(0, 2));
      expect([...session.tokens.subarray(prompts[i]!.length)]).toEqual(tokens.slice(0, had));
      expect(await tokensOf(session.generate({ ...all, maxTokens: 2 }))).toEqual(tokens.slice(had, had + 2));
      expect(bitsEqual(await session.logits(), logits[had + 2]!)).toBe(true);
    }
  });
});

test("32 sessions, each with tokens of its own, in random order and with random ends: none sees another's", async () => {
  using model = await openTiny(device, { states: 12, pages: { count: 90, tokens: 8 }, promptTokens: 16, batchTokens: 32 });
  using cache = model.cache({ bytes: 1e9, step: 8 });
  const shared = textOf(99, 20);
  const prompts = Array.from({ length: 32 }, (_, i) => [...shared, 20 + i, 20 + i, ...textOf(i, i % 9)]);
  const cold: number[][] = [];
  for (const prompt of prompts) cold.push((await coldRun(model, prompt, 16)).tokens);
  let given = 0;
  await Promise.all(
    prompts.map(async (prompt, i) => {
      await later((i * 7) % 23);
      using session = model.session({ cache, salt: i % 3 === 0 ? `${i}` : "" }).append(prompt);
      const found: number[] = [];
      const end = 1 + ((i * 5) % 16);
      for await (const { token } of session.generate({ ...all, maxTokens: 16, drafts: i % 2 === 0 })) {
        found.push(token);
        if (found.length === end) break;
        if (i % 4 === 1) await later(i % 3);
      }
      expect(found).toEqual(cold[i]!.slice(0, end));
      given += found.length;
    }),
  );
  expect(given).toBe(prompts.reduce((sum, _, i) => sum + 1 + ((i * 5) % 16), 0));
  cache.clear();
  expect([model.freeStates, model.freePages]).toEqual([12, 90]);
});
