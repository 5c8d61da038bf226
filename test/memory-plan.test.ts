/** The memory that a model takes by default. */
import { afterAll, expect, test } from "bun:test";
import { LanguageModel } from "../lib/model.ts";
import { planMemory } from "../lib/model/memory-plan.ts";
import { openDevice } from "./support/devices.ts";
import { openTiny, rejection, tinyFolder } from "./support/models.ts";
import { collect } from "./support/sessions.ts";

const device = openDevice(1);
afterAll(() => device.close());

test("without numbers a model loads, and answers", async () => {
  using model = await LanguageModel.load(device, tinyFolder());
  expect(model.states).toBe(8);
  expect(model.pages * model.pageTokens).toBeGreaterThanOrEqual(4 * Math.min(2048, model.config.maxPositions));
  using session = model.session().append([1, 2, 3]);
  expect((await collect(session.generate({ maxTokens: 3, ignoreModelStops: true }))).length).toBe(3);
});

test("sessions and context stand for states and pages, in the model's own sizes", async () => {
  using model = await LanguageModel.load(device, tinyFolder(), { sessions: 3, context: 100, pages: { tokens: 8 }, states: { dtype: "f16" } });
  expect([model.states, model.pages, model.pageTokens]).toEqual([6, 3 * 13, 8]);
  const plan = planMemory("test", model.config, { pages: { tokens: 8 }, states: { dtype: "f16" } }, 1e9);
  expect([plan.states.bytes, plan.pages.bytes]).toEqual([model.stateBytes, model.pageBytes]);
  const refused = async (options: object) => (await rejection(LanguageModel.load(device, tinyFolder(), options))).message;
  expect(await refused({ sessions: 1, states: 2 })).toContain("`sessions` cannot be combined with `states`");
  expect(await refused({ context: 1, pages: 2 })).toContain("`context` cannot be combined with `pages`");
  expect(await refused({ sessions: 0 })).toContain("sessions");
});

test("what is free bounds them: fewer tokens first, then fewer sessions, and never none", async () => {
  using model = await openTiny(device);
  const config = { ...model.config, maxPositions: 262144 };
  const { stateBytes } = model;
  const pageBytes = model.pageBytes * (64 / model.pageTokens);
  const plan = (free: number, options = {}) => planMemory("test", config, options, free);
  const counts = (free: number, options = {}) => [plan(free, options).states.slots, plan(free, options).pages.count];
  expect(counts(1e12)).toEqual([8, (4 * 32768) / 64]);
  const enough = 2 * (8 * stateBytes + 4 * 40 * pageBytes);
  expect(counts(enough)).toEqual([8, 4 * 40]);
  expect(counts(2 * (4 * stateBytes + 2 * 32 * pageBytes))).toEqual([4, 2 * 32]);
  expect(counts(0)).toEqual([2, 32]);
  expect(counts(0, { sessions: 5, context: 640 })).toEqual([10, 50]);
  expect(counts(1e12, { states: 6 })).toEqual([6, (3 * 32768) / 64]);
  expect(counts(1e12, { pages: 7 })).toEqual([8, 7]);
});
