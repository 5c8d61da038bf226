/** The cache of prefixes that sessions have read: its entries give the cold run's bits, and give way to sessions. */
import { afterAll, describe, expect, test } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import type { LanguageModel } from "../../lib/model.ts";
import { openDevice } from "../support/devices.ts";
import { openTiny, textOf } from "../support/models.ts";
import { coldRun, tokensOf } from "../support/sessions.ts";

const device = openDevice(2);
afterAll(() => device.close());
const all = { ignoreModelStops: true } as const;

describe("a cache", () => {
  const generous = { states: 40, pages: { count: 400, tokens: 8 } };
  const open = (model: LanguageModel, bytes = 1e9) => model.cache({ bytes, step: 8 });

  test("sessions that begin alike read what they share once, and give the cold run's bits", async () => {
    using model = await openTiny(device, generous);
    using cache = open(model);
    const system = textOf(1, 100);
    for (const [i, length] of [20, 33, 1].entries()) {
      const prompt = [...system, ...textOf(i + 2, length)];
      const { tokens, logits } = await coldRun(model, prompt, 13);
      using session = model.session({ cache }).append(system).append(prompt.slice(100));
      expect(bitsEqual(await session.logits(), logits[0]!)).toBe(true);
      expect(await tokensOf(session.generate({ ...all, maxTokens: 12 }))).toEqual(tokens.slice(0, 12));
      expect(bitsEqual(await session.logits(), logits[12]!)).toBe(true);
      if (i === 0) expect([cache.hits, cache.tokensSaved]).toEqual([0, 0]);
      else expect(cache.tokensSaved).toBe(100 * i);
    }
    // Again, and further: the turn's end is kept as well.
    const saved = cache.tokensSaved;
    const prompt = [...system, ...textOf(2, 20)];
    const { tokens } = await coldRun(model, prompt, 12);
    using again = model.session({ cache }).append(prompt);
    expect(await tokensOf(again.generate({ ...all, maxTokens: 3 }))).toEqual(tokens.slice(0, 3));
    expect(cache.tokensSaved - saved).toBe(119);
    using turn = model.session({ cache }).append([...prompt, ...tokens, 1, 2, 3]);
    await turn.logits();
    expect(cache.tokensSaved - saved).toBe(119 + 131);
  });

  test("salts share nothing", async () => {
    using model = await openTiny(device, generous);
    using cache = open(model);
    for (const salt of ["a", "b", undefined]) {
      using session = model.session({ cache, salt }).append(textOf(1, 50));
      await session.logits();
    }
    expect(cache.hits).toBe(0);
    using session = model.session({ cache, salt: "a" }).append(textOf(1, 50));
    await session.logits();
    expect(cache.tokensSaved).toBe(49);
  });

  test("keeps to its budget, and gives way where states or pages are short", async () => {
    using model = await openTiny(device, { states: 4, pages: { count: 30, tokens: 8 } });
    using cache = open(model);
    for (let i = 0; i < 12; i++) {
      const prompt = textOf(i % 5, 20 + 5 * i);
      const { logits } = await coldRun(model, prompt, 1).catch(() => ({ logits: [] }));
      using session = model.session({ cache, whenFull: "error" }).append(prompt);
      const found = await session.logits();
      if (logits[0] !== undefined) expect(bitsEqual(found, logits[0])).toBe(true);
    }
    expect(cache.size).toBeGreaterThan(0);
    cache.clear();
    expect([cache.size, cache.bytes, model.freeStates, model.freePages]).toEqual([0, 0, 4, 30]);
    using tight = open(model, 2 * (model.stateBytes + 4 * model.pageBytes));
    for (let i = 0; i < 6; i++) {
      using session = model.session({ cache: tight }).append(textOf(i, 30));
      await session.logits();
      expect(tight.bytes).toBeLessThanOrEqual(2 * (model.stateBytes + 4 * model.pageBytes));
    }
  });

  test("a disposed cache is none", async () => {
    using model = await openTiny(device, generous);
    const cache = open(model);
    using session = model.session({ cache }).append(textOf(1, 50));
    await session.logits();
    expect(cache.size).toBeGreaterThan(0);
    cache[Symbol.dispose]();
    cache[Symbol.dispose]();
    expect([cache.disposed, cache.size]).toEqual([true, 0]);
    using other = model.session({ cache }).append(textOf(1, 50));
    expect(bitsEqual(await other.logits(), await session.logits())).toBe(true);
    expect(cache.size).toBe(0);
  });
});
