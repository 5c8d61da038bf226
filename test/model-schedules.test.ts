/**
 * Random schedules over tiny models: prompts cut anywhere, batched with anything, forked, verified, restored. No bit of a logit
 * differs from the cold run of one sequence. The long run is model-schedules/long.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { GatedDeltaError } from "../lib/index.ts";
import { onOnly } from "./support/backends.ts";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { openFixtures } from "./model-schedules/fixtures.ts";
import type { Fixture } from "./model-schedules/fixtures.ts";
import { planted } from "./model-schedules/planted.ts";
import { makeSchedule, runSchedules } from "./model-schedules/runner.ts";

const device = openDevice(1);
afterAll(() => device.close());
const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20261");
/** About 20 s of two quiet cores; an emulated GPU is far slower. */
const schedules = device.emulated ? 30 : 1000;

let fixtures: Fixture[];
beforeAll(async () => {
  fixtures = await openFixtures(device, files.folder);
});
afterAll(() => {
  for (const { model, cold } of fixtures) [model, cold].forEach((each) => each[Symbol.dispose]());
});

test(`${schedules} random schedules give the bits of the cold run`, async () => {
  const { failure, counts } = await runSchedules(fixtures, seed, 0, schedules);
  expect(failure).toBeUndefined();
  for (const what of ["rows compared", "forks", "restored", "batches of several", "batches without enough pages", "batches refused", "runs side by side", "guesses accepted", "guesses without room"]) {
    expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }
}, 1_500_000);

describe("a planted fault is found within the same schedules", () => {
  for (const [name, plant] of Object.entries(planted)) {
    test(name, async () => {
      // Models of their own: plans that were recorded before the fault do not have it, and those after it keep it.
      const own = await openFixtures(device, files.newPath());
      using _ = plant();
      const { failed } = await runSchedules(own, seed, 0, schedules, false);
      expect(failed).toBeLessThan(schedules);
      for (const { model, cold } of own) [model, cold].forEach((each) => each[Symbol.dispose]());
    }, 1_500_000);
  }
});

test("a failing schedule is cut down and told, with its seed", async () => {
  const own = await openFixtures(device, files.newPath());
  using _ = planted["a shared page is left, but what is in it is not copied"]!();
  const { failure, failed } = await runSchedules(own, seed, 0, schedules);
  expect(failure).toStartWith(`schedule ${failed} of seed ${seed} differs from the cold run, after `);
  const [, kept, all] = /after (\d+) of its (\d+) actions/.exec(failure!)!;
  expect(Number(kept)).toBeLessThan(Number(all));
  expect(failure).toContain("a model of ");
  for (const { model, cold } of own) [model, cold].forEach((each) => each[Symbol.dispose]());
}, 1_500_000);

onOnly("metal", "random schedules", ({ device: metal }) => {
  test("give the bits of the cold run, or are refused where an op has no kernel", async () => {
    const own = await openFixtures(metal, files.newPath());
    using sequence = own[0]!.model.sequence();
    const refusal = await own[0]!.model.run([{ sequence, tokens: [1] }]).then(() => undefined, (error: GatedDeltaError) => error);
    if (refusal === undefined) {
      sequence[Symbol.dispose]();
      const { failure } = await runSchedules(own, seed, 0, metal.emulated ? 12 : schedules);
      expect(failure).toBeUndefined();
    } else {
      console.log(`Not run on metal: schedules of models, since ${refusal.message}`);
      expect(refusal.code).toBe("unsupported");
      expect([sequence.tokens, sequence.valid, own[0]!.model.freePages]).toEqual([0, true, own[0]!.model.pages]);
    }
    for (const { model, cold } of own) [model, cold].forEach((each) => each[Symbol.dispose]());
  }, 1_500_000);
});

test("a schedule is made of its seed and number alone", () => {
  expect(makeSchedule(seed, 3, 7)).toEqual(makeSchedule(seed, 3, 7));
  expect(makeSchedule(seed, 3, 7)).not.toEqual(makeSchedule(seed, 4, 7));
  expect(makeSchedule(seed + 1, 3, 7)).not.toEqual(makeSchedule(seed, 3, 7));
});
