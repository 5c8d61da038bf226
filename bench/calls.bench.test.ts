/** The cost of a call: the figures are printed, and limits that hold on every machine are checked. */
import { afterAll, describe, expect, test } from "bun:test";
import { Device } from "../lib/index.ts";
import { quickBudget } from "./benchmark.ts";
import { callBenchmarks } from "./cases/calls.ts";
import { firstResult } from "./cases/first-result.ts";
import { wakeBenchmarks } from "./cases/wake.ts";

const device = Device.open({ backend: "cpu", threads: 1 });
const pair = Device.open({ backend: "cpu", threads: 2 });
afterAll(() => {
  device.close();
  pair.close();
});

/** An object that a call leaves behind takes at least 16 bytes. */
const leastObject = 16;

describe("calls", () => {
  const wakes = wakeBenchmarks([1, 2], (threads) => (threads === 1 ? device : pair));
  for (const benchmark of [...callBenchmarks(() => device), ...wakes]) {
    test(benchmark.name, async () => {
      const { us, usMin, heapBytesPerCall = 0 } = await benchmark.measure(quickBudget);
      expect(Number.isFinite(us)).toBe(true);
      expect(usMin).toBeLessThanOrEqual(us);
      expect(heapBytesPerCall).toBeLessThan(leastObject);
      console.log(`${benchmark.name}: ${us.toFixed(3)} µs`);
    });
  }
});

test("the first result", () => {
  const { process: whole, library } = firstResult();
  expect(library).toBeGreaterThan(0);
  expect(library).toBeLessThan(whole);
  console.log(`first-result: ${(library / 1e3).toFixed(1)} ms of a process of ${(whole / 1e3).toFixed(1)} ms`);
});
