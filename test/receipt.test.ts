/** The record that `npm test` writes on a Mac. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { machine, pipelinesFile, receipt, receiptName } from "./run/receipt.mjs";
import { scratch } from "./support/files.ts";

const { newPath } = scratch();

const metal = { name: "Apple M2 Pro", isa: "", threads: 0, emulated: false };
const cpu = { name: "Apple M2 Pro", isa: "neon", threads: 8, emulated: false };
const facts = {
  date: "2026-11-20T10:00:00.000Z", commit: "0123456789abcdef", changes: "" as string | null, chip: "Apple M2 Pro", system: "macOS 15.5 (24F74)",
  swift: "Apple Swift version 6.1", devices: { cpu, metal } as Record<string, unknown>,
};
const results = [{ name: "swift test", passed: 40, failed: 0, seconds: 3 }, { name: "bun test", passed: 900, failed: 2, seconds: 90 }];

describe("receipt", () => {
  test("sums what the runners counted, and keeps the facts", () => {
    expect<unknown>(receipt(facts, results)).toEqual({
      kind: "npm test", date: facts.date, commit: facts.commit, chip: facts.chip, system: facts.system, swift: facts.swift,
      clean: true, devices: { cpu, metal }, ranOnGpu: true, passed: 940, failed: 2, runners: results,
    });
  });

  test("changes that are not committed are told, and unknown is not clean", () => {
    expect(receipt({ ...facts, changes: " M lib/pass.ts" }, results).clean).toBe(false);
    expect(receipt({ ...facts, changes: null }, results).clean).toBe(null);
  });

  test("a GPU too old, an emulation and a library that does not load are no GPU", () => {
    for (const devices of [{ cpu, metal: { error: "too old" } }, { cpu, metal: { ...metal, emulated: true } }, { error: "no library" }]) {
      expect(receipt({ ...facts, devices }, results).ranOnGpu).toBe(false);
    }
  });

  test("has the facts about the pipelines, if Swift's tests have left them", async () => {
    const root = newPath("root");
    mkdirSync(join(root, ".build"), { recursive: true });
    expect((await machine(root, process.execPath)).pipelines).toBe(null);
    const pipelines = { cores: 38, fewThreadgroups: 76, kernels: [{ kernel: "gd_gates", maxThreads: 1024, threadgroupBytes: 0, milliseconds: 3.5 }], forms: [{ form: "eightRows", kernel: "gd_project_f32_f32", many: 10, few: 12.5, takesMany: true }] };
    writeFileSync(pipelinesFile(root), JSON.stringify(pipelines));
    const here = await machine(root, process.execPath);
    expect(receipt(here, results)).toMatchObject({ pipelines });
  });

  test("is named for chip, day and commit", () => {
    expect(receiptName(facts)).toBe("apple-m2-pro-2026-11-20-01234567.json");
    expect(receiptName({ ...facts, chip: "VMware (Virtual) CPU", commit: "unknown" })).toBe("vmware-virtual-cpu-2026-11-20-unknown.json");
  });

  test("the devices are those that the library opens here", async () => {
    const here = await machine(join(import.meta.dir, ".."), process.execPath);
    expect(here.devices).toMatchObject({ cpu: { emulated: false } });
    expect(Number.isNaN(Date.parse(here.date))).toBe(false);
    if (process.platform === "linux") expect(receipt(here, results).ranOnGpu).toBe(false);
  });
});
