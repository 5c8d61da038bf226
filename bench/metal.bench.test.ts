/** The GPU's benchmarks, on any Metal: counts and receipts, not speeds. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { asPointer } from "../lib/native/handle.ts";
import { constants } from "../lib/native/layout.ts";
import { library } from "../lib/native/library.ts";
import { native } from "../lib/device/device-handle.ts";
import { machine } from "../test/run/receipt.mjs";
import { temporaryFolder } from "../test/setup/folder.ts";
import { onEachBackend } from "../test/support/backends.ts";
import { deltaBenchmark } from "./cases/gated-delta.ts";
import { stepBenchmark } from "./cases/gated-delta-step.ts";
import { normBenchmark } from "./cases/gated-rms-norm.ts";
import { gpuNanoseconds } from "./metal/gpu-time.ts";
import { measureOnGpu, metalHeading, metalText, quickMetalBudget } from "./metal/measure.ts";
import type { MetalRow } from "./metal/measure.ts";
import { benchReceipt, writeBenchReceipt } from "./metal/receipt.ts";
import { estimateOf, estimates } from "./metal/estimates.ts";
import { metalSuite } from "./metal/suite.ts";
import type { Shape } from "./shapes.ts";

const shape: Shape = { dtype: "f32", sequences: 1, tokens: 1, valueHeads: 16, threads: 1, temperature: "hot" };
const none = () => {
  throw new Error("not timed by the clock");
};

test("every benchmark has a name of its own, a limit and calls for any device", () => {
  const all = metalSuite();
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
  for (const { name, work, rotation } of all) {
    expect([name, work !== undefined, rotation !== undefined]).toEqual([name, true, true]);
    expect(name).not.toMatch(/\/t\d+(\/|$)/);
  }
  expect(all.map(({ name }) => name)).toContain("gatedDelta/f32/B1/T1/Hv32/cold");
});

test("every row has an estimate, which docs/metal.md shows", () => {
  const page = readFileSync(new URL("../docs/metal.md", import.meta.url), "utf8");
  const used = new Set(metalSuite().map(({ name }) => estimateOf(name)));
  expect(used).toEqual(new Set(estimates));
  for (const { rows, range, why } of estimates) {
    const isShare = metalSuite().find(({ name }) => estimateOf(name)?.rows === rows)!.work!.kind === "bytes";
    expect(range[0] > 0 && range[0] < range[1] && (!isShare || range[1] <= 100)).toBe(true);
    expect(page).toContain(`| \`${rows}\` | ${range.join(" to ")} ${isShare ? "% of a copy" : "GFLOP/s"} | ${why} |\n`);
  }
});

onEachBackend("the GPU's time", ({ device }) => {
  test("grows with each submission, and is 0 without a GPU", () => {
    const times = [gpuNanoseconds(device)];
    for (let i = 0; i < 2; i++) {
      const { calls, tensors } = normBenchmark(shape, none).rotation!(device);
      device.run(...calls[0]!);
      device.wait();
      times.push(gpuNanoseconds(device));
      for (const tensor of tensors) tensor[Symbol.dispose]();
    }
    if (device.backend === "cpu") expect(times).toEqual([0, 0, 0]);
    else expect(times[0]! < times[1]! && times[1]! < times[2]!).toBe(true);
  });

  test("has a place to go to", () => {
    expect(library().gd_device_gpu_time(asPointer(device[native]), null as never)).toBe(constants.GD_ERROR_INVALID_ARGUMENT);
  });

  if (device.backend === "metal") {
    test("is given with that of a copy of as many bytes, or as a rate", () => {
      for (const benchmark of [normBenchmark(shape, none), stepBenchmark(shape, none, "chain"), deltaBenchmark({ ...shape, tokens: 20 }, none)]) {
        const row = measureOnGpu(device, benchmark, quickMetalBudget, "hot");
        const isRate = benchmark.work!.kind === "multiply-adds";
        expect([row.name, row.bytes === null, row.copyUs === null, row.sharePercent === null, row.gflops === null]).toEqual([benchmark.name, isRate, isRate, isRate, !isRate]);
        expect(row.usMin > 0 && row.usMin <= row.us).toBe(true);
        if (!isRate) expect(row.sharePercent).toBeCloseTo((100 * row.copyUs!) / row.us, 6);
        expect(metalText(row)).toStartWith(benchmark.name);
        expect(metalText(row).length).toBe(metalHeading.length);
      }
    });
  }
});

describe("the receipt", () => {
  const row: MetalRow = { name: "x", us: 2, usMin: 1, bytes: 4, copyUs: 1, sharePercent: 50, gflops: null, estimate: [40, 60] };
  const cpu = { name: "Apple M2 Pro", isa: "neon", threads: 8, emulated: false };
  const facts = (metal: object) => ({
    date: "2026-11-20T10:00:00.000Z", commit: "0123456789abcdef", changes: "", chip: "Apple M2 Pro", system: "macOS 15.5 (24F74)",
    swift: "Apple Swift version 6.1", devices: { cpu, metal }, pipelines: null,
  });

  test("says that a GPU ran it only where one did", () => {
    const real = { name: "Apple M2 Pro", isa: "", threads: 0, emulated: false };
    expect(benchReceipt(facts(real), { cpu: [], metal: [row] })).toMatchObject({ kind: "npm run bench", clean: true, ranOnGpu: true, metal: [row] });
    expect(benchReceipt(facts(real), { cpu: [], metal: [row] }).note).toBe(undefined);
    expect(benchReceipt(facts(real), { cpu: [], metal: [] }).ranOnGpu).toBe(false);
    expect(benchReceipt(facts({ error: "none" }), { cpu: [], metal: [] }).ranOnGpu).toBe(false);
    const emulated = benchReceipt(facts({ ...real, emulated: true }), { cpu: [], metal: [row] });
    expect(emulated.ranOnGpu).toBe(false);
    expect(emulated.note).toContain("say nothing of any GPU");
  });

  test("is written next to that of the tests", async () => {
    using place = temporaryFolder();
    const root = `${import.meta.dir}/..`;
    const path = await writeBenchReceipt(root, place.path, { cpu: [], metal: [row] });
    expect(path).toMatch(/-\d{4}-\d\d-\d\d-\w+-bench\.json$/);
    const written = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
    const { devices } = await machine(root, process.execPath);
    expect(written).toMatchObject({ kind: "npm run bench", metal: [row], devices });
    if (process.platform === "linux") expect(written["ranOnGpu"]).toBe(false);
  });
});
