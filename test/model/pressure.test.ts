/** Sessions in memory for fewer: which ones give way, what is restored, and that every request ends with the answer of the cold run. */
import { afterAll, describe, expect, test } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { Session } from "../../lib/model.ts";
import type { LanguageModel, LoadModelOptions } from "../../lib/model.ts";
import { writeSession } from "../../lib/model/session/session-file.ts";
import { snapshotOf } from "../../lib/model/snapshot.ts";
import { promptShares } from "../../lib/model/session/prompt-shares.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { coldLogits, openTiny, rejection, textOf } from "../support/models.ts";
import { replace } from "../support/replace.ts";
import { coldRun, collect, tokensOf } from "../support/sessions.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();
const all = { ignoreModelStops: true } as const;
/** Memory for one session of 24 tokens. */
const one: Partial<LoadModelOptions> = { states: 1, pages: { count: 6, tokens: 4 } };

async function later(turns: number): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** The last row of a text's logits, from a model with room for the text. */
async function lastOf(model: LanguageModel, tokens: readonly number[]): Promise<Float32Array> {
  return (await coldLogits(model, tokens)).slice(-model.config.vocabSize);
}

describe("requests at work", () => {
  test.each([1, 2, 3, 5])("each ends with its answer, on %p states", async (states) => {
    using roomy = await openTiny(device);
    using model = await openTiny(device, { states, pages: { count: 8, tokens: 4 } });
    const prompts = Array.from({ length: 12 }, (_, i) => textOf(i, 3 + (i % 5)));
    const cold = [];
    for (const prompt of prompts) cold.push((await coldRun(roomy, prompt, 20)).tokens);
    const ended: number[] = [];
    const answers = await Promise.all(prompts.map(async (prompt, i) => {
      using session = model.session().append(prompt);
      const tokens = await tokensOf(session.generate({ ...all, maxTokens: 20 }));
      ended.push(i);
      return tokens;
    }));
    expect(answers).toEqual(cold);
    expect(ended[0]).toBe(0);
    expect([model.freeStates, model.freePages]).toEqual([states, 8]);
  });

  test("an earlier one never waits for the steps of a later one: a long prompt among short answers", async () => {
    using model = await openTiny(device, { states: 8, pages: { count: 24, tokens: 8 }, promptTokens: 16, batchTokens: 32 });
    let stop = false;
    let answers = 0;
    const others = Array.from({ length: 6 }, async (_, k) => {
      while (!stop) {
        using session = model.session().append(textOf(k, 20));
        await collect(session.generate({ ...all, maxTokens: 12 }));
        answers++;
      }
    });
    await later(20);
    using long = model.session().append(textOf(9, 150));
    const before = model.steps;
    await long.logits();
    const steps = model.steps - before;
    stop = true;
    await Promise.all(others);
    expect(answers).toBeGreaterThan(6);
    // The six before it need at most 12 + 2 steps each; then it comes first: 150 tokens, 8 of 16 in each step.
    expect(steps).toBeLessThanOrEqual(6 * 14 + 19 + 1);
  });

  test("one that left its memory to an earlier one reads on by itself, and is refused where it is not to wait", async () => {
    using model = await openTiny(device, one);
    using a = model.session().append(textOf(1, 5));
    using b = model.session({ whenFull: "error" }).append(textOf(2, 5));
    const earlier = a.generate(all);
    const later = b.generate(all);
    await earlier.next();
    // The consumer of the first one rests, so that its session is idle for a while.
    let now = performance.now();
    {
      using _ = replace(performance, "now", () => () => now);
      now += 1000;
      await later.next();
    }
    expect([a.read, b.read]).toEqual([0, 5]);
    await earlier.next();
    expect([a.read, b.read]).toEqual([6, 0]);
    expect((await rejection(later.next())).message).toContain("which an earlier request has taken");
    await earlier.return();
    expect(await tokensOf(b.generate({ ...all, maxTokens: 1 }))).toEqual((await coldRun(model, [...textOf(2, 5), ...b.tokens.slice(5, 6)], 1)).tokens);
  });

  test("tokens of prompts are shared out by age, and none is lost", () => {
    expect(promptShares([100, 100, 100], 64)).toEqual([32, 16, 16]);
    expect(promptShares([100, 5, 3], 64)).toEqual([56, 5, 3]);
    expect(promptShares([10, 100], 64)).toEqual([10, 54]);
    expect(promptShares([1, 1, 1], 64)).toEqual([1, 1, 1]);
    expect(promptShares([9, 9, 9, 9], 1)).toEqual([1, 0, 0, 0]);
    expect(promptShares([], 64)).toEqual([]);
  });
});

describe("idle sessions", () => {
  test("give what they have, that which was used longest ago first, and read again on use", async () => {
    using model = await openTiny(device, { states: 3, pages: { count: 30, tokens: 4 } });
    const texts = [1, 2, 3, 4].map((seed) => textOf(seed, 6 + seed));
    const sessions = texts.map((text) => model.session().append(text));
    const logits: Float32Array[] = [];
    for (const session of sessions) logits.push(await session.logits());
    expect(sessions.map(({ read }) => read)).toEqual([0, 8, 9, 10]);
    const steps = model.steps;
    expect(bitsEqual(await sessions[0]!.logits(), logits[0]!)).toBe(true);
    expect(model.steps - steps).toBe(1);
    expect(sessions.map(({ read }) => read)).toEqual([7, 0, 9, 10]);
    for (const session of sessions) session[Symbol.dispose]();
    expect([model.freeStates, model.freePages]).toEqual([3, 30]);
  });

  test("thirty on memory for one: each goes on with the bits of the cold run", async () => {
    using roomy = await openTiny(device);
    using model = await openTiny(device, one);
    const sessions = Array.from({ length: 30 }, (_, i) => model.session().append(textOf(i, 4 + (i % 6))));
    await Promise.all(sessions.map((session) => session.logits()));
    const answers = await Promise.all(sessions.map((session) => tokensOf(session.generate({ ...all, maxTokens: 5 }))));
    for (const [i, answer] of answers.entries()) expect(answer).toEqual((await coldRun(roomy, textOf(i, 4 + (i % 6)), 5)).tokens);
    for (const session of sessions) session[Symbol.dispose]();
    expect([model.freeStates, model.freePages]).toEqual([1, 6]);
  });

  test("save, logits and hidden of one whose memory was taken read again first", async () => {
    using model = await openTiny(device, one);
    using session = model.session().append(textOf(1, 9));
    const logits = await session.logits();
    const hidden = await session.hidden();
    using other = model.session().append(textOf(2, 9));
    const take = async (): Promise<void> => {
      other.append([1]);
      await other.logits();
      expect(session.read).toBe(0);
    };
    await take();
    expect(bitsEqual(await session.logits(), logits)).toBe(true);
    await take();
    expect(bitsEqual(await session.hidden(), hidden)).toBe(true);
    await take();
    const path = files.newPath();
    await session.save(path);
    using loaded = await Session.load(model, path);
    expect(loaded.read).toBe(9);
    const steps = model.steps;
    expect(bitsEqual(await loaded.logits(), logits)).toBe(true);
    expect(model.steps).toBe(steps);
    // The session continues while it is being saved: the file holds its state at the call.
    await session.logits();
    await take();
    const saved = session.save(path);
    session.append([7]);
    const more = session.logits();
    await saved;
    using before = await Session.load(model, path);
    expect([...before.tokens]).toEqual(textOf(1, 9));
    using roomy = await openTiny(device);
    expect(bitsEqual(await more, await lastOf(roomy, [...textOf(1, 9), 7]))).toBe(true);
  });

  test("a generation that its consumer leaves alone counts as idle, and goes on later", async () => {
    using roomy = await openTiny(device);
    using model = await openTiny(device, one);
    using a = model.session().append(textOf(1, 5));
    const pieces = a.generate({ ...all, maxTokens: 6 });
    const tokens = [(await pieces.next()).value!.token];
    using b = model.session().append(textOf(2, 5));
    expect(await tokensOf(b.generate({ ...all, maxTokens: 4 }))).toEqual((await coldRun(roomy, textOf(2, 5), 4)).tokens);
    for await (const { token } of pieces) tokens.push(token);
    expect(tokens).toEqual((await coldRun(roomy, textOf(1, 5), 6)).tokens);
  });

  test("one that is not to wait goes on, too, after a later request or a sequence of the caller's took its memory while it was idle", async () => {
    using roomy = await openTiny(device);
    using model = await openTiny(device, one);
    const cold = (await coldRun(roomy, textOf(0, 5), 6)).tokens;
    const takers = [
      async () => void (await model.session().append(textOf(1, 5)).complete({ ...all, maxTokens: 3 })),
      async () => model.sequence()[Symbol.dispose](),
    ];
    for (const take of takers) {
      using session = model.session({ whenFull: "error" }).append(textOf(0, 5));
      const pieces = session.generate({ ...all, maxTokens: 6 });
      const tokens = [(await pieces.next()).value!.token];
      await Bun.sleep(300);
      await take();
      expect(session.read).toBe(0);
      for await (const { token } of pieces) tokens.push(token);
      expect(tokens).toEqual(cold);
    }
  });

  test("logits and hidden states are those that were read, also if the caller's own code changes the session as the reading ends", async () => {
    using roomy = await openTiny(device);
    using model = await openTiny(device, one);
    const prompt = textOf(0, 5);
    using still = roomy.session().append(prompt);
    const cold = { logits: await lastOf(roomy, prompt), hidden: await still.hidden() };
    for (const what of ["logits", "hidden"] as const) {
      for (let turns = 0; turns < 9; turns++) {
        for (const change of [(session: Session) => session.append(textOf(1, 2)), () => model.sequence()[Symbol.dispose]()]) {
          using session = model.session().append(prompt);
          let changed = Promise.resolve();
          const after = async (): Promise<void> => {
            for (let i = 0; i < turns; i++) await null;
            change(session);
          };
          const onProgress = ({ read, total }: { readonly read: number; readonly total: number }): void => {
            // A session that is at work, or whose memory is in use, refuses the change.
            if (read === total) changed = after().catch(() => {});
          };
          const found = await session[what]({ onProgress });
          await changed;
          expect(bitsEqual(found, cold[what])).toBe(true);
        }
      }
    }
  });

  test("a fork takes nothing, and shares what was read until one of them goes on", async () => {
    using roomy = await openTiny(device);
    using model = await openTiny(device, { states: 2, pages: { count: 12, tokens: 4 } });
    using session = model.session().append(textOf(1, 10));
    await session.logits();
    const forks = Array.from({ length: 5 }, () => session.fork());
    expect([model.freeStates, model.freePages]).toEqual([1, 9]);
    const steps = model.steps;
    const answers = await Promise.all(forks.map((fork, i) => tokensOf(fork.append([i]).generate({ ...all, maxTokens: 4 }))));
    for (const [i, answer] of answers.entries()) expect(answer).toEqual((await coldRun(roomy, [...textOf(1, 10), i], 4)).tokens);
    expect(model.steps - steps).toBeGreaterThan(4);
    for (const fork of forks) fork[Symbol.dispose]();
    session[Symbol.dispose]();
    expect([model.freeStates, model.freePages]).toEqual([2, 12]);
  });

  test("a fork takes the place of an idle parent where there is one state", async () => {
    using model = await openTiny(device, one);
    using session = model.session().append(textOf(1, 10));
    await session.logits();
    using fork = session.fork();
    const steps = model.steps;
    await fork.append([3]).logits();
    expect(model.steps - steps).toBe(1); // nothing is read again
    expect([session.read, fork.read]).toEqual([0, 11]);
  });

  test("a session that is collected as garbage gives what it has", async () => {
    using model = await openTiny(device, one);
    await (async () => void (await model.session().append(textOf(1, 9)).logits()))();
    for (let i = 0; i < 50 && model.freeStates === 0; i++) {
      Bun.gc(true);
      await Bun.sleep(5);
    }
    expect([model.freeStates, model.freePages]).toEqual([1, 6]);
  });

  test("the caller's own sequences come before idle sessions, and never before requests at work", async () => {
    using model = await openTiny(device, { states: 2, pages: { count: 6, tokens: 4 } });
    using a = model.session().append(textOf(1, 12));
    await a.logits();
    using b = model.session().append(textOf(2, 4));
    const pieces = b.generate(all);
    await pieces.next();
    using sequence = model.sequence();
    expect(a.read).toBe(0);
    await model.run([{ sequence, tokens: textOf(3, 16) }]);
    expect((await rejection(model.run([{ sequence, tokens: textOf(3, 8) }]))).code).toBe("out-of-memory");
    expect(b.read).toBe(4);
    await pieces.return();
  });
});

describe("states of 16 bits", () => {
  const half: Partial<LoadModelOptions> = { states: { slots: 1, dtype: "f16" }, pages: { count: 8, tokens: 4, dtype: "bf16" }, dtype: "bf16" };

  test("are copied to the host's memory and put back, and nothing is read again", async () => {
    using model = await openTiny(device, half);
    const alone = [];
    for (const seed of [1, 2]) {
      using session = model.session().append(textOf(seed, 9));
      await session.logits();
      alone.push(await tokensOf(session.generate({ ...all, maxTokens: 3 })), await session.append([5]).logits());
    }
    using a = model.session().append(textOf(1, 9));
    using b = model.session().append(textOf(2, 9));
    await a.logits();
    await b.logits();
    expect(a.read).toBe(9);
    const steps = model.steps;
    const found = [await tokensOf(a.generate({ ...all, maxTokens: 3 })), await a.append([5]).logits(), await tokensOf(b.generate({ ...all, maxTokens: 3 })), await b.append([5]).logits()];
    expect(model.steps - steps).toBe(2 * 3);
    expect(found).toEqual(alone);
  });

  test("wait where there is no room for the copy", async () => {
    using model = await openTiny(device, { ...half, swap: 0 });
    const a = model.session().append(textOf(1, 9));
    await a.logits();
    using b = model.session().append(textOf(2, 9));
    let done = false;
    const run = b.logits().finally(() => (done = true));
    await Bun.sleep(60);
    expect([done, a.read]).toEqual([false, 9]);
    a[Symbol.dispose]();
    await run;
  });

  test("of requests at work the first one goes on, also where there is no room for copies", async () => {
    using model = await openTiny(device, { ...half, states: { slots: 2, dtype: "f16" }, pages: { count: 6, tokens: 4, dtype: "bf16" }, swap: 0 });
    const answers = await Promise.all([1, 2, 3].map(async (seed) => {
      using session = model.session().append(textOf(seed, 9));
      return await tokensOf(session.generate({ ...all, maxTokens: 12 }));
    }));
    expect(answers.map(({ length }) => length)).toEqual([12, 12, 12]);
  });

  test("a session from a file is read again where the file's kernels are these, else copied: its bits are the file's", async () => {
    using model = await openTiny(device, one);
    const path = files.newPath();
    {
      using session = model.session().append(textOf(1, 9));
      await session.logits();
      await session.save(path);
    }
    const elsewhere = files.newPath();
    {
      using sequence = model.sequence();
      await model.run([{ sequence, tokens: textOf(1, 9) }]);
      const contents = { tokens: Int32Array.from(textOf(1, 9)), messageEnds: Int32Array.of(9), generated: new Int32Array(), dialogue: undefined, textEnd: { held: "", replaced: false }, logits: undefined, read: snapshotOf(sequence) };
      await writeSession("test", elsewhere, model, { ...contents, recomputable: false });
    }
    using roomy = await openTiny(device);
    const expected = await lastOf(roomy, [...textOf(1, 9), 1, 2]);
    for (const [file, read] of [[path, 0], [elsewhere, 10]] as const) {
      using session = await Session.load(model, file);
      await session.append([1]).logits();
      using other = model.session().append(textOf(2, 9));
      await other.logits();
      expect(session.read).toBe(read);
      expect(bitsEqual(await session.append([2]).logits(), expected)).toBe(true);
    }
  });
});

describe("caches", () => {
  test("give before idle sessions do, and only what frees something", async () => {
    using model = await openTiny(device, { states: 8, pages: { count: 12, tokens: 4 } });
    using cache = model.cache({ bytes: 1e9, step: 4 });
    using shared = model.session({ cache }).append(textOf(1, 17)); // its entries share its pages
    await shared.logits();
    const { size } = cache;
    expect(size).toBeGreaterThan(1);
    using other = model.session().append(textOf(2, 8));
    await other.logits();
    expect(cache.size).toBe(size);
    expect(shared.read).toBe(17);
    // 12 pages, 5 of them shared by the session and the cache, 2 of the other: the third needs 6.
    using third = model.session().append(textOf(3, 24));
    await third.logits();
    expect(other.read + shared.read).toBeLessThan(25);
  });

  test("a beginning that another session reads is waited for", async () => {
    using model = await openTiny(device, { states: 30, pages: { count: 300, tokens: 8 }, batchTokens: 64, promptTokens: 32 });
    using cache = model.cache({ bytes: 1e9 });
    const stem = textOf(1, 200);
    const cold = [];
    for (let i = 0; i < 10; i++) cold.push((await coldRun(model, [...stem, i, i + 1], 3)).tokens);
    const answers = await Promise.all(Array.from({ length: 10 }, async (_, i) => {
      using session = model.session({ cache }).append([...stem, i, i + 1]);
      const { tokens, usage } = await session.complete({ ...all, maxTokens: 3 });
      expect(usage).toEqual({ promptTokens: 202, cachedTokens: i === 0 ? 0 : 200, generatedTokens: 3 });
      expect(session.usage).toEqual(usage);
      return [...tokens];
    }));
    expect(answers).toEqual(cold);
    expect(cache.tokensSaved).toBe(9 * 200);
  });

  test("it is not waited for under another salt, without a cache, or where its reader has ended", async () => {
    using model = await openTiny(device, { states: 30, pages: { count: 300, tokens: 8 }, batchTokens: 32 });
    using cache = model.cache({ bytes: 1e9, step: 16 });
    const stem = textOf(1, 200);
    const controller = new AbortController();
    using aborted = model.session({ cache }).append([...stem, 1]);
    const gone = aborted.logits({ signal: controller.signal }).catch((error: Error) => error.message);
    const sessions = [model.session({ cache, salt: "other" }), model.session(), model.session({ cache })].map((session) => session.append([...stem, 2]));
    const found = Promise.all(sessions.map((session) => session.logits()));
    await later(6);
    controller.abort(new Error("enough"));
    expect(await gone).toBe("enough");
    const expected = await lastOf(model, [...stem, 2]);
    for (const logits of await found) expect(bitsEqual(logits, expected)).toBe(true);
    expect(sessions[0]!.usage.cachedTokens).toBe(0);
    expect(sessions[1]!.usage.cachedTokens).toBe(0);
    for (const session of sessions) session[Symbol.dispose]();
  });
});

describe("errors and turns", () => {
  test("what a request's own callback throws ends that one alone", async () => {
    using model = await openTiny(device, { batchTokens: 16 });
    using a = model.session().append(textOf(1, 40));
    using b = model.session().append(textOf(2, 40));
    const seen: number[] = [];
    const [failed, logits] = await Promise.all([
      a.logits({ onProgress: () => { throw new Error("mine"); } }).catch((error: Error) => error.message),
      b.logits({ onProgress: ({ read, total }) => void seen.push(read, total) }),
    ]);
    expect(failed).toBe("mine");
    expect(bitsEqual(logits, await lastOf(model, textOf(2, 40)))).toBe(true);
    expect(seen.filter((_, i) => i % 2 === 1).every((total) => total === 40)).toBe(true);
    const reads = seen.filter((_, i) => i % 2 === 0);
    expect(reads).toEqual([...reads].sort((x, y) => x - y));
    expect(reads.at(-1)).toBe(40);
    expect((await a.logits()).length).toBe(model.config.vocabSize);
  });

  test("steps and runs of the caller's take turns; a second run of the caller's is still refused", async () => {
    using model = await openTiny(device);
    using sequence = model.sequence();
    using session = model.session().append(textOf(1, 5));
    const order: string[] = [];
    let stop = false;
    const runs = (async () => {
      for (let i = 0; !stop && i < 200; i++) {
        const [result] = await model.run([{ sequence, tokens: [i % 50] }]);
        expect(result!.logits.length).toBe(model.config.vocabSize);
        order.push("run");
      }
    })();
    for await (const _ of session.generate({ ...all, maxTokens: 20 })) order.push("step");
    stop = true;
    await runs;
    const between = order.join(" ").split("step").slice(1, -1).map((part) => part.trim().split(" ").filter(Boolean).length);
    // One or two, and a few more on a busy machine; all 200 if a step had to wait for the last of them.
    expect(Math.max(...between)).toBeLessThanOrEqual(10);
    const pending = model.run([{ sequence, tokens: [1] }]);
    expect((await rejection(model.run([{ sequence, tokens: [1] }]))).code).toBe("state");
    await pending;
  });
});
