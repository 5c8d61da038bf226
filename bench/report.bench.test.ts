/** The suite's names, options, files and picture, and the probes if they can be built. */
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { clang } from "../test/emulator/toolchain.ts";
import { temporaryFolder } from "../test/setup/folder.ts";
import { time } from "./benchmark.ts";
import { buildProbe } from "./native/build.mjs";
import { Probe } from "./native/probe.ts";
import { readOptions } from "./options.ts";
import { picture } from "./picture.ts";
import { markdown, readTimes, text } from "./row.ts";
import type { Row } from "./row.ts";
import { Devices, suite } from "./suite.ts";
import { limitOf, rateOf } from "./work.ts";

const row: Row = {
  name: "gatedDelta/f32/B1/T1/Hv32/t1/cold",
  us: 100,
  usMin: 90,
  limitPercent: 77,
  limit: "in-place 55.0 GB/s, 512 MiB",
  rate: 42.4,
  unit: "GB/s",
};

test("every benchmark has a name of its own", () => {
  using devices = new Devices();
  const names = suite(devices).map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain(row.name);
});

describe("options", () => {
  test("are read", () => {
    const options = readOptions(["--json", "--filter", "f32/B1", "--compare", "old.jsonl"]);
    if (typeof options === "string") throw new Error(options);
    const { filter, ...others } = options;
    expect(others).toEqual({
      json: true,
      quick: false,
      list: false,
      compare: "old.jsonl",
      picture: undefined,
      markdown: undefined,
      metal: false,
      receipt: undefined,
    });
    expect(filter?.test("gatedDelta/f32/B1/T1")).toBe(true);
    expect(filter?.test("gatedDelta/f32/B8/T1")).toBe(false);
  });

  test.each([[["--fast"]], [["--filter", "("]], [["--compare"]], [["all"]]])("%p is refused in words", (args) => {
    expect(readOptions(args)).toBeString();
  });
});

describe("earlier results", () => {
  test("give ratios", () => {
    using place = temporaryFolder();
    const file = join(place.path, "old.jsonl");
    writeFileSync(file, `\n> gated-delta@0.1.0 bench\n> node bench/run.mjs --json\n\n${JSON.stringify({ ...row, us: 150 })}\n\n`);
    const earlier = readTimes(file);
    expect([...earlier]).toEqual([[row.name, 150]]);
    expect(text(row, earlier.get(row.name), true)).toContain("1.50×");
    expect(text({ ...row, name: "other" }, earlier.get("other"), true)).toContain("new");
  });

  test.each(["{", "[]", '{"name":"a"}', '{"name":"a","us":0}', "null"])("%p is no result", (line) => {
    using place = temporaryFolder();
    const file = join(place.path, "old.jsonl");
    writeFileSync(file, line);
    expect(() => readTimes(file)).toThrow("line 1");
  });
});

test("the picture has a dot for every row with a limit, and the key's", () => {
  const dots = (rows: readonly Row[]) =>
    [...picture(rows).matchAll(/<g aria-label="dot"[\s\S]*?<\/g>/g)].map(
      ([group]) => group.match(/<path /g)?.length ?? 0,
    );
  const other: Row = { ...row, name: "gatedDelta/bf16/B1/T1/Hv32/t2/hot", limitPercent: 120 };
  expect(dots([row, other, { ...row, name: "calls/run-wait", limitPercent: null }])).toEqual([2, 4]);
  expect(picture([row])).toStartWith("<svg ");
});

test("the table for documents has a line for every row", () => {
  expect(markdown([row]).trimEnd().split("\n")).toEqual([
    "| benchmark | µs | at best | rate | of limit | limit |",
    "|---|--:|--:|--:|--:|---|",
    "| `gatedDelta/f32/B1/T1/Hv32/t1/cold` | 100.0 | 90.0 | 42.4 GB/s | 77 % | in-place 55.0 GB/s, 512 MiB |",
  ]);
});

test("a time is that of one call, however many a batch has", async () => {
  let calls = 0;
  const since = Bun.nanoseconds();
  const { us, usMin } = await time(() => void calls++, { milliseconds: 5, leastSamples: 3 });
  expect(usMin).toBeLessThanOrEqual(us);
  // No median exceeds twice the mean under any load; the time of a batch instead of a call's would.
  expect(us * calls).toBeLessThan(20 * ((Bun.nanoseconds() - since) / 1e3));
});

describe("the probes", () => {
  test("measure what they are asked", async () => {
    const probe = new Probe(await buildProbe(`${import.meta.dir}/..`, clang()));
    expect(["avx512", "avx2", "baseline", "neon"]).toContain(probe.isa);
    for (const pattern of ["in-place", "copy", "two-to-one", "read"] as const) {
      const limit = limitOf(probe, { kind: "bytes", bytes: 1e6, pattern, workingSet: 2 ** 20 }, 1, 1);
      expect(limit.us).toBeGreaterThan(0);
      expect(limit.text).toContain(`${pattern} `);
    }
    const work = { kind: "multiply-adds", count: 1e6 } as const;
    expect(limitOf(probe, work, 2, 1).us).toBeGreaterThan(0);
    expect(rateOf(work, 1000)).toEqual({ rate: 2, unit: "GFLOP/s" });
  });
});
