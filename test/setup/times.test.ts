/** The messages of `npm test` about its time, before it begins and while something is built. */
import { describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { stepsOf } from "../../swift/scripts/progress.mjs";
import { test as linuxTest } from "../emulator/linux.ts";
import { announcement, expectation, keepTimes, lastTimes } from "../run/times.mjs";
import { scratch } from "../support/files.ts";

const { newPath } = scratch();

describe("how long it takes", () => {
  test("is a figure by cores where it has not run", () => {
    const root = newPath("clone");
    expect(lastTimes(root, 4)).toBeNull();
    expect(expectation(null, 1, true)).toMatch(/^about 23 min on 1 core, of which 3 build the emulated Metal's kernels, once; up to/);
    expect(expectation(null, 8, true)).toMatch(/^about 6 min on 8 cores, of which 3/);
    expect(expectation(null, 8, false)).toMatch(/^about 3 min on 8 cores; up to/);
    expect(announcement("types", null)).toBe("running types");
  });

  test("is that of the last whole run, on as many cores", () => {
    const root = newPath("clone");
    keepTimes(root, 2, [{ name: "types", seconds: 3, passed: 1 }, { name: "swift test", seconds: 90, passed: 2 }, { name: "bun test", seconds: 837, passed: 9 }], 840);
    const times = lastTimes(root, 2);
    expect(expectation(times, 2, true)).toBe("the last run here took 14 min");
    expect(announcement("types", times)).toBe("running types (last time 3 s)");
    expect(announcement("bun test", times)).toBe("running bun test (last time 14 min)");
    expect(announcement("another", times)).toBe("running another");
    expect(lastTimes(root, 8)).toBeNull();
    writeFileSync(join(root, ".build", "test-times.json"), '{"cores":2');
    expect(lastTimes(root, 2)).toBeNull();
  });
});

describe("how far a build is", () => {
  test("is read from its lines", () => {
    const { take, progress } = stepsOf();
    expect(progress()).toEqual({});
    expect([take("[3/57] Compiling kernels.c"), take("warning: [3] of them"), take("")]).toEqual([true, false, false]);
    expect(progress()).toEqual({ done: 3, total: 57, text: "3 of 57, Compiling kernels.c" });
  });

  linuxTest("is told by the translator, a line for each file that it compiles", () => {
    const source = newPath("shaders.metal");
    writeFileSync(source, "#include <metal_stdlib>\nusing namespace metal;\nkernel void gd_one(device uint* out [[buffer(0)]]) { out[0] = 1; }\n");
    const output = newPath("kernels.so");
    const main = join(import.meta.dir, "..", "emulator", "main.ts");
    const { exitCode, stdout } = Bun.spawnSync([process.execPath, main, "build", source, "-o", output], { stdout: "pipe", stderr: "inherit" });
    expect([exitCode, existsSync(output)]).toEqual([0, true]);
    const lines = stdout.toString().trimEnd().split("\n");
    const { take, progress } = stepsOf();
    for (const [i, line] of lines.slice(0, -1).entries()) {
      expect(take(line)).toBe(true);
      expect(progress()).toMatchObject({ done: i + 1, total: lines.length - 1 });
    }
    expect(lines.length).toBeGreaterThan(2);
    expect(lines.join("\n")).toContain(`] ${basename(source)}`);
    expect(lines.at(-1)).toBe(`${output}: 1 kernels`);
  }, 300_000);
});
