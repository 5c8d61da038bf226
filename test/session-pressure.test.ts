/**
 * Random schedules of 1 to 40 sessions over memory for 1 to 4 of them: at the same time, forked, drafted, cached, saved, restored,
 * left, aborted, disposed of, with consumers that pause, and with sequences of the caller's own. Every request ends as it should,
 * every answer is that of the cold run, no request waits for later ones, and at the end all memory is free. The long run is
 * session-pressure/long.ts.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { planted } from "./session-pressure/planted.ts";
import { pressureSchedules } from "./session-pressure/runner.ts";
import type { PressureSchedules } from "./session-pressure/runner.ts";
import { testPlantedFaults } from "./support/planted-faults.ts";
import { runSchedules } from "./support/schedules.ts";
import { countStepsAhead } from "./support/steps-ahead.ts";

const device = openDevice(1);
afterAll(() => device.close());
const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20263");
/** Each planted fault is found within the first thirty schedules. */
const schedules = device.emulated ? 4 : 50;

let machine: PressureSchedules;
beforeAll(async () => {
  machine = await pressureSchedules(device, files.newPath());
});
afterAll(() => machine[Symbol.dispose]());

test(`${schedules} random schedules under pressure give what the cold run gives`, async () => {
  using ahead = countStepsAhead();
  const { failure, counts } = await runSchedules(machine, files.newPath(), seed, 0, schedules);
  expect(failure).toBeUndefined();
  if (device.emulated) return;
  expect(ahead.taken).toBeGreaterThan(0);
  for (const what of [
    "memory taken", "more sessions than states", "tokens given with drafts", "tokens compared", "logits compared", "hidden compared", "forks", "saved", "restored",
    "aborted", "disposed of on the way", "left while waiting", "long pauses", "refused above the capacity", "refused while others are at work", "answers to the capacity",
    "runs of the caller", // not "tokens found in caches": little of a cache survives the pressure, so this few schedules may have no hit
  ]) expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
}, 1_500_000);

// An emulated GPU runs too few schedules.
if (!device.emulated) testPlantedFaults(() => machine, planted, { seed, count: schedules, folder: () => files.newPath() });
