/** The programs that measure threads and other libraries: each answers its requests. No time is asserted. */
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../test/setup/folder.ts";
import { Child } from "./child.ts";
import type { Report } from "./threads/process.ts";

const program = (name: string, ...rest: string[]) => new Child([process.execPath, `${import.meta.dir}/${name}`, ...rest]);

test("a process says how long its calls took", async () => {
  using child = program("threads/process.ts", "2");
  expect(await child.next()).toEqual({ threads: 2 });
  for (const name of ["small", "decode", "prefill"]) {
    const report = (await child.ask(`${name} 2`)) as Report;
    expect(report.milliseconds).toBeGreaterThan(0);
    expect(report.processorMilliseconds).toBeGreaterThan(0);
    expect(report.waits).toBeGreaterThanOrEqual(0);
  }
});

test("two devices say their rates, and one alone", async () => {
  using child = program("threads/devices.ts", "2");
  expect(await child.next()).toEqual([]);
  const [one, other] = (await child.ask("small decode 20")) as [number, number];
  expect(one).toBeGreaterThan(0);
  expect(other).toBeGreaterThan(0);
  expect(await child.ask("none small 5")).toEqual([0, expect.any(Number)]);
});

test("this library among the peers: both algorithms, one output", async () => {
  using folder = temporaryFolder();
  const write = (name: string, length: number, number: (i: number) => number) =>
    writeFileSync(join(folder.path, `${name}.f32`), Float32Array.from({ length }, (_, i) => number(i)));
  const tokens = 20;
  for (const name of ["query", "key"]) write(name, tokens * 16 * 128, (i) => Math.sin(i) / 8);
  write("value", tokens * 32 * 128, (i) => Math.cos(i));
  write("gate", tokens * 32, () => -0.1);
  write("beta", tokens * 32, () => 0.5);
  write("state", 32 * 128 * 128, (i) => Math.sin(3 * i) / 8);
  const outs: Float32Array[] = [];
  for (const algorithm of ["recurrent", "chunked"]) {
    using child = program("peers/ours.ts", algorithm, "1", folder.path);
    expect(await child.next()).toEqual({ version: expect.stringContaining(algorithm) });
    expect(((await child.ask(`${tokens} 1`)) as number[]).every((time) => time > 0)).toBe(true);
    const file = join(folder.path, `${algorithm}.f32`);
    expect(await child.ask(`${tokens} 0 ${file}`)).toEqual([]);
    const bytes = readFileSync(file);
    outs.push(new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4));
  }
  const [recurrent, chunked] = outs as [Float32Array, Float32Array];
  expect(recurrent.length).toBe(tokens * 32 * 128);
  expect(Math.hypot(...recurrent.map((x, i) => x - chunked[i]!))).toBeLessThan(5e-6 * Math.hypot(...recurrent));
});
