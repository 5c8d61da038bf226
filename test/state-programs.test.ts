/**
 * Random programs over pools, steps, drafts, forks, plans, caches and files, with failures at every stage, against a
 * model in plain TypeScript: no state ever contains a number of another one. The long run is state-programs/long.ts.
 */
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { openDevice, testBackend } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { fallen } from "./support/memory.ts";
import { Machine } from "./state-programs/machine.ts";
import { planted } from "./state-programs/planted.ts";
import { StatePrograms } from "./state-programs/runner.ts";
import { testPlantedFaults, testShrinking } from "./support/planted-faults.ts";
import { runSchedules } from "./support/schedules.ts";

const device = openDevice(1);
afterAll(() => device.close());
const machine = new StatePrograms(new Machine(device));
const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20260");
/** Each planted fault is found within the first hundred programs; an emulated GPU is far slower. */
const programs = device.emulated ? 150 : 1_200;

test(`${programs} random programs do what the model says, and leave no memory behind`, async () => {
  const half = programs / 2;
  const first = await runSchedules(machine, files.folder, seed, 0, half);
  expect(first.failure).toBeUndefined();
  Bun.gc(true);
  const baseline = process.memoryUsage.rss();
  const second = await runSchedules(machine, files.folder, seed, half, half);
  expect(second.failure).toBeUndefined();
  // Every stage has failed, and there was something to compare.
  for (const event of ["failed: encode", "failed: commit", "failed: run", "failed: save", "states compared", "forks", "plans replayed", "files loaded", "cache hits"]) {
    expect([event, second.counts.get(event) ?? 0]).not.toEqual([event, 0]);
  }
  Bun.gc(true);
  // A leak of one small tensor per action would be many times as much.
  const most = 64 * 2 ** 20;
  expect(await fallen(() => process.memoryUsage.rss() - baseline, most)).toBeLessThan(most);
}, 1_500_000);

const share = { seed, count: programs, folder: () => files.newPath() };
const faults = Object.fromEntries(Object.entries(planted).map(([name, plant]) => [name, () => plant(device)]));
testPlantedFaults(() => machine, faults, share);
testShrinking(() => machine, Object.values(faults)[0]!, "a pool of ", share);

test("where files have no room, saving fails and leaves what was there", () => {
  // A limit on the length of files simulates a full disk: it needs no privileges, and stops a write halfway.
  const command = `trap "" XFSZ; ulimit -f 5; exec "$0" "$@"`;
  const args = [join(import.meta.dir, "state-programs", "long.ts"), "--programs", "150", "--seed", `${seed}`, "--backend", testBackend, "--short-files"];
  const { success, stdout, stderr } = Bun.spawnSync(["sh", "-c", command, process.execPath, ...args], { stdout: "pipe", stderr: "pipe" });
  expect([success, `${stderr}`, `${stdout}`]).toEqual([true, "", expect.stringContaining("all do what the model says")]);
  expect(Number(/failed: save, no room: (\d+)/.exec(`${stdout}`)?.[1] ?? 0)).toBeGreaterThan(0);
  expect(Number(/files saved: (\d+)/.exec(`${stdout}`)?.[1] ?? 0)).toBeGreaterThan(0);
}, 1_500_000);
