/**
 * Random programs over pools, steps, drafts, forks, plans, caches and files, with failures at every stage, against a
 * model in plain TypeScript: no state ever shows a number of another one. The long run is state-programs/long.ts.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { openDevice, testBackend } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { Machine } from "./state-programs/machine.ts";
import { planted } from "./state-programs/planted.ts";
import { makeProgram, runPrograms } from "./state-programs/runner.ts";

const device = openDevice(1);
afterAll(() => device.close());
const machine = new Machine(device);
const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20260");
/** About 60 s of two quiet cores; an emulated GPU is far slower. */
const programs = device.emulated ? 150 : 9_000;

test(`${programs} random programs do what the model says`, () => {
  const { failure, counts } = runPrograms(machine, files.folder, seed, 0, programs);
  expect(failure).toBeUndefined();
  // Every stage has failed, and what is compared was there.
  for (const what of ["failed: encode", "failed: commit", "failed: run", "failed: save", "states compared", "forks", "plans replayed", "files loaded", "cache hits"]) {
    expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }
}, 1_500_000);

describe("a planted fault is found within the same programs", () => {
  for (const [name, plant] of Object.entries(planted)) {
    test(name, () => {
      using _ = plant(device);
      const { failed } = runPrograms(machine, join(files.folder, "planted"), seed, 0, programs, { shrinking: false });
      expect(failed).toBeLessThan(programs);
    }, 1_500_000);
  }
});

test("a failing program is cut down and told, with its seed", () => {
  using _ = Object.values(planted)[0]!(device);
  const { failure, failed } = runPrograms(machine, files.folder, seed, 0, programs);
  expect(failure).toStartWith(`program ${failed} of seed ${seed} differs from the model, after `);
  const [, kept, all] = /after (\d+) of its (\d+) actions/.exec(failure!)!;
  expect(Number(kept)).toBeLessThan(Number(all) / 2);
  expect(failure).toContain("a pool of ");
  // It is the same program each time.
  expect(runPrograms(machine, files.folder, seed, failed!, 1).failure).toBe(failure!);
}, 1_500_000);

test("where files have no room, saving fails and leaves what was there", () => {
  // A limit of files' lengths stands for a full disk: it needs no rights, and stops a write half way.
  const command = `trap "" XFSZ; ulimit -f 5; exec "$0" "$@"`;
  const args = [join(import.meta.dir, "state-programs", "long.ts"), "--programs", "150", "--seed", `${seed}`, "--backend", testBackend, "--short-files"];
  const { success, stdout, stderr } = Bun.spawnSync(["sh", "-c", command, process.execPath, ...args], { stdout: "pipe", stderr: "pipe" });
  expect([success, `${stderr}`, `${stdout}`]).toEqual([true, "", expect.stringContaining("all do what the model says")]);
  expect(Number(/failed: save, no room: (\d+)/.exec(`${stdout}`)?.[1] ?? 0)).toBeGreaterThan(0);
  expect(Number(/files saved: (\d+)/.exec(`${stdout}`)?.[1] ?? 0)).toBeGreaterThan(0);
}, 1_500_000);

describe("the share runs the same programs as the long command", () => {
  test("a program is made of its seed and number alone", () => {
    expect(makeProgram(seed, 3)).toEqual(makeProgram(seed, 3));
    expect(makeProgram(seed, 3)).not.toEqual(makeProgram(seed, 4));
    expect(makeProgram(seed + 1, 3)).not.toEqual(makeProgram(seed, 3));
  });
});
