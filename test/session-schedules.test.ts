/**
 * Random schedules of sessions over tiny models: at the same time, forked, drafted, cached, evicted, saved, restored, left,
 * aborted, disposed of, and continued from the files of a killed process. Every token and every bit of a logit is that of the
 * cold run. The long run is session-schedules/long.ts.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { onOnly } from "./support/backends.ts";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { planted, plantedRoles } from "./session-schedules/planted.ts";
import { sessionSchedules } from "./session-schedules/runner.ts";
import type { SessionSchedules } from "./session-schedules/runner.ts";
import { testPlantedFaults } from "./support/planted-faults.ts";
import { runSchedules } from "./support/schedules.ts";
import { countStepsAhead } from "./support/steps-ahead.ts";

const device = openDevice(1);
afterAll(() => device.close());
const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20262");
/** Most planted faults are found by the first schedule, and all within fifteen. */
const schedules = device.emulated ? 10 : 50;

const opened = new DisposableStack();
afterAll(() => opened.dispose());
const open = async () => opened.use(await sessionSchedules(device, files.newPath()));

let machine: SessionSchedules;
beforeAll(async () => {
  machine = await open();
});

test(`${schedules} random schedules give the tokens and bits of the cold run`, async () => {
  using ahead = countStepsAhead();
  const { failure, counts } = await runSchedules(machine, files.newPath(), seed, 0, schedules);
  expect(failure).toBeUndefined();
  if (!device.emulated) expect(ahead.taken).toBeGreaterThan(0);
  if (!device.emulated) expect(ahead.committed).toBeGreaterThan(ahead.taken);
  if (!device.emulated) expect(counts.get("sessions of killed processes") ?? 0).toBeGreaterThan(0);
  for (const what of ["tokens given with drafts", "logits compared", "at the same time", "forks", "restored", "restored from the middle of an answer", "aborted", "disposed of on the way", "caches cleared", "turns", "turns that went back"]) {
    expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }
}, 1_500_000);

onOnly("cpu", "random schedules with int8 activations", ({ device: cpu }) => {
  test("give the tokens and bits of the cold run", async () => {
    const own = opened.use(await sessionSchedules(cpu, files.newPath(), "int8"));
    const { failure, counts } = await runSchedules(own, files.newPath(), seed, 0, 16);
    expect(failure).toBeUndefined();
    for (const what of ["logits compared", "forks", "restored", "sessions of killed processes"]) expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }, 600_000);
});

onOnly("metal", "random schedules with prompts by matrices", ({ device: metal, emulated }) => {
  const own = async () => opened.use(await sessionSchedules(metal, files.newPath(), "matrix"));
  const count = emulated ? 8 : 128;
  test("give the tokens and bits of the cold run, by role", async () => {
    // Schedules 7 to 9 are short, and contain everything that is counted below.
    const [first, some] = emulated ? [7, 3] : [0, count];
    const { failure, counts } = await runSchedules(await own(), files.newPath(), seed, first, some);
    expect(failure).toBeUndefined();
    for (const what of ["tokens given with drafts", "logits compared", "restored"]) expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }, 1_500_000);

  testPlantedFaults(own, plantedRoles, { seed, count, folder: () => files.newPath() });
});

testPlantedFaults(open, planted, { seed, count: schedules, folder: () => files.newPath() });
