/** Many sessions of one model: steps, turns, and shortages of states or pages. */
import { afterAll, describe, expect, test } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { GatedDeltaError } from "../../lib/errors.ts";
import type { Piece, Session } from "../../lib/model.ts";
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

async function first(pieces: AsyncGenerator<Piece>): Promise<void> {
  expect((await pieces.next()).done).toBe(false);
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
    // The first step reads from both prompts; then each step reads 16 tokens of the long one with a token of the other.
    expect(order.indexOf("slow")).toBeGreaterThanOrEqual(16);
    expect(order.indexOf("slow")).toBeLessThanOrEqual(20);
    expect(model.steps - before).toBeLessThanOrEqual(26);
    // Alone, it is read in pieces as long as what goes through the layers at a time.
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
    const prompt = [39]; // of all single tokens, the one whose answer repeats itself most
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
  test("a session waits for those of the caller's sequences, and goes on when one is given back", async () => {
    using model = await openTiny(device, { states: 2 });
    const [a, b] = [model.sequence(), model.sequence()];
    using c = model.session().append(textOf(1, 9));
    let done = false;
    const run = tokensOf(c.generate({ ...all, maxTokens: 3 })).finally(() => (done = true));
    await Bun.sleep(60);
    expect(done).toBe(false);
    a[Symbol.dispose]();
    expect(await run).toEqual((await coldRun(model, textOf(1, 9), 3)).tokens);
    b[Symbol.dispose]();
  });

  test("it is an error at once where that is asked for, and the session can be used later", async () => {
    using model = await openTiny(device, { states: 1 });
    using a = model.session().append([1]);
    const working = a.generate(all);
    await first(working);
    using b = model.session({ whenFull: "error" }).append([2]);
    const refused = await failure(() => b.logits());
    expect(refused.code).toBe("out-of-memory");
    expect(refused.message).toMatch(/^session: expected a free state .*`states` of LanguageModel.load.*whose 1 states are in use/);
    expect((await failure(() => collect(b.generate()))).code).toBe("out-of-memory");
    await working.return();
    // An idle session does not count as one at work.
    expect((await b.logits()).length).toBe(model.config.vocabSize);
  });

  test("every wait that nothing ends is warned of, once each", async () => {
    using model = await openTiny(device, { states: 1 });
    let now = 0;
    using _ = replace(performance, "now", () => () => now);
    const messages: string[] = [];
    const listen = (warning: Error & { readonly code?: string }) => void (warning.code === "GATED_DELTA_WAIT" && messages.push(warning.message));
    process.on("warning", listen);
    try {
      for (let time = 1; time <= 2; time++) {
        const sequence = model.sequence();
        using session = model.session().append([2]);
        const run = session.logits();
        await Bun.sleep(40); // it is waiting already, or will begin to
        expect(messages.length).toBe(time - 1);
        while (messages.length < time) {
          now += 100;
          await later(1);
        }
        for (let i = 0; i < 50; i++) {
          now += 100;
          await later(1);
        }
        sequence[Symbol.dispose]();
        expect((await run).length).toBe(model.config.vocabSize);
        expect(messages.length).toBe(time);
      }
      expect(messages[0]).toMatch(/^1 request of sessions waits, and nothing runs. Sequences of model.sequence\(\) and caches have 1 states and 0 pages/);
    } finally {
      process.off("warning", listen);
    }
  });

  test("the warning counts no earlier wait, and no time between two", async () => {
    using model = await openTiny(device, { states: 1 });
    const sequence = model.sequence();
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
      await Bun.sleep(40);
      now += 2050;
      const run = b.logits();
      await Bun.sleep(40);
      sequence[Symbol.dispose]();
      await run;
      await later(3);
      expect(warnings).toBe(0);
    } finally {
      process.off("warning", listen);
    }
  });

  test("a wait can be aborted, left, and ends with its session", async () => {
    using model = await openTiny(device, { states: 1 });
    using sequence = model.sequence();
    const b = model.session().append([2]);
    const controller = new AbortController();
    const aborted = b.logits({ signal: controller.signal }).catch((error: Error) => error.message);
    await later(3);
    controller.abort(new Error("enough"));
    expect(await aborted).toBe("enough");
    const pieces = b.generate(all);
    const next = pieces.next();
    await later(3);
    expect(await pieces.return()).toEqual({ done: true, value: undefined });
    expect(await next).toEqual({ done: true, value: undefined });
    expect(await pieces.next()).toEqual({ done: true, value: undefined });
    const disposed = failure(() => b.logits());
    await later(3);
    b[Symbol.dispose]();
    expect((await disposed).code).toBe("disposed");
    expect(sequence.tokens).toBe(0);
  });
});

describe("when pages are in use", () => {
  const small = { states: 4, pages: { count: 6, tokens: 4 } };

  test("a session waits for those of the caller's sequences", async () => {
    using model = await openTiny(device, small);
    const sequence = model.sequence();
    await model.run([{ sequence, tokens: textOf(1, 17) }]);
    using b = model.session().append(textOf(2, 9));
    const run = tokensOf(b.generate({ ...all, maxTokens: 4 }));
    await Bun.sleep(30);
    expect(b.read).toBeLessThan(9);
    sequence[Symbol.dispose]();
    expect(await run).toEqual((await coldRun(model, textOf(2, 9), 4)).tokens);
  });

  test("what can never fit is refused before anything is read", async () => {
    using model = await openTiny(device, small);
    const before = model.steps;
    using session = model.session().append(textOf(1, 24));
    for (const whenFull of ["wait", "error"] as const) {
      using long = model.session({ whenFull }).append(textOf(1, 25));
      expect((await failure(() => long.logits())).message).toMatch(/^session.logits: expected at most 24 tokens, as many as all pages of the model hold/);
    }
    expect((await failure(() => collect(session.generate()))).message).toMatch(/^session.generate: .*24 and 1 to come/);
    using short = model.session().append(textOf(1, 20));
    expect((await failure(() => collect(short.generate({ maxTokens: 5 })))).code).toBe("out-of-memory");
    expect(model.steps).toBe(before);
    expect((await session.logits()).length).toBe(model.config.vocabSize);
    // An answer without a set length ends where the pages do.
    const pieces = await collect(short.generate(all));
    expect(pieces.length).toBe(4);
    expect(pieces.at(-1)!.end).toBe("length");
    expect(pieces.map(({ token }) => token)).toEqual((await coldRun(model, textOf(1, 20), 4)).tokens);
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
      // Tokens that were received before the failure remain.
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
