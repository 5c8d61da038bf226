/** `gated-delta verify` on folders of language models: its comparisons, and its errors for wrong folders. */
import { describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openSafetensors, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { onOnly } from "./support/backends.ts";
import { gatedDelta, rowsOf } from "./support/command.ts";
import { testBackend } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { tinyFolder } from "./support/models.ts";

const { newPath } = scratch();
const goldens = join(import.meta.dir, "golden", "models");
const golden = join(goldens, "qwen3_5-mlx-mixed");
const backend = testBackend === "metal" ? "metal" : "cpu";

function verifyOn(backend: "cpu" | "metal", paths: readonly string[], ...options: string[]) {
  const result = gatedDelta(["verify", "--backend", backend, "--json", ...options, ...paths]);
  return { ...result, rows: rowsOf(result) };
}

/** The tests of `--prompts` use both settings. */
function verify(paths: readonly string[], ...options: string[]) {
  return verifyOn(backend, paths, "--prompts", "exact", ...options);
}

const others = ["all tokens in one run", "split after 1", "split in pieces of 7", "token by token", "batched", "forked", "restored"];

const sessions = ["sessions, among strangers", "sessions, cold and warm cache", "sessions, drafts", "sessions, forked", "sessions, restored from files", "sessions, read again"];

describe.each(["qwen3_5-mlx-mixed", "olmo_hybrid", "qwen3_5_moe", "qwen3_next-mlx"])("a model with references, %s", (name) => {
  const golden = join(goldens, name);
  const { status, rows, errors } = verify([golden]);

  test("passes in every way", () => {
    expect([status, errors]).toEqual([0, ""]);
    expect([...new Set(rows.map(({ way }) => way))]).toEqual(["whole", ...others, ...sessions]);
    for (const row of rows) {
      expect(row).toMatchObject({ file: golden, op: "LanguageModel", backend, pass: true });
      if (/bits|greedy\.\d/.test(row.tensor)) expect([row.relRms, row.maxAbs, row.tolerance]).toEqual([0, 0, 0]);
      else expect(row.tolerance).toBe(2e-5);
    }
    const whole = rows.filter(({ way }) => way === "whole").map(({ tensor }) => tensor);
    expect(whole.toSorted()).toEqual([0, 1].flatMap((n) => [`greedy.${n}`, `greedy_logits.${n}`, `logits.${n}`]).toSorted());
    for (const way of others) expect(rows.filter((row) => row.way === way && row.tensor.includes("bits"))).toHaveLength(4);
    for (const way of sessions) expect(rows.filter((row) => row.way === way)).toHaveLength(4);
  }, 120_000);

  test("passes with 16-bit activations and pages, whose logits may be further away", () => {
    const factor = name.startsWith("qwen3_5_moe") || name.startsWith("qwen3_next") ? 3 : 1;
    for (const [dtype, bound] of [["f16", factor * 1e-2], ["bf16", factor * 8e-2]] as const) {
      const { status, rows } = verify([golden], "--dtype", dtype);
      expect(status).toBe(0);
      const near = rows.filter(({ tolerance }) => tolerance > 0);
      expect(near.every(({ tolerance }) => tolerance === bound)).toBe(true);
      // At least one result takes half the bound: the bound fits these numbers.
      expect(Math.max(...near.map(({ relRms }) => relRms))).toBeGreaterThan(bound / 40);
    }
  }, 240_000);
});

describe("--prompts", () => {
  onOnly("metal", "both settings", () => {
    test("run on Metal, each for itself, within the same bounds", () => {
      const { status, rows, errors } = verifyOn("metal", [shortGolden()]);
      expect([status, errors]).toEqual([0, ""]);
      const plain = ["whole", ...others, ...sessions];
      expect([...new Set(rows.map(({ way }) => way))]).toEqual([...plain, ...plain.map((way) => `${way}, matrix prompts`)]);
      const [exact, matrix] = [false, true].map((of) => rows.filter(({ way }) => way.endsWith("matrix prompts") === of));
      const kinds = (some: typeof rows) => some.map(({ way, tensor, tolerance }) => [way.replace(", matrix prompts", ""), tensor, tolerance]);
      expect(kinds(matrix!)).toEqual(kinds(exact!));
      // The numbers themselves differ.
      const distance = (some: typeof rows) => some.find(({ tensor }) => tensor === "logits.0")!.relRms;
      expect(distance(matrix!)).not.toBe(distance(exact!));
    }, 300_000);

    test("one of them can be chosen", () => {
      const { status, rows } = verifyOn("metal", [tinyFolder({ layers: "g" })], "--prompts", "matrix");
      expect(status).toBe(0);
      expect(rows.every(({ way, pass }) => pass && way.endsWith(", matrix prompts"))).toBe(true);
    }, 300_000);
  });

  test.each(["matrix", "both"])("%s is refused on a CPU, by name", (prompts) => {
    const { status, errors, rows } = verifyOn("cpu", [golden], "--prompts", prompts);
    expect([status, rows]).toEqual([2, []]);
    expect(errors).toContain("--prompts");
    expect(errors).toContain("a CPU has no matrix units");
  });
});

/** A copy of the golden model's folder with different references. */
function withExpected(change: (tensors: Map<string, TensorToWrite>) => void): string {
  const folder = newPath();
  cpSync(golden, folder, { recursive: true });
  const path = join(folder, "expected.safetensors");
  const tensors = new Map<string, TensorToWrite>();
  {
    using file = openSafetensors(path);
    for (const name of file.names) {
      const { dtype, shape } = file.info(name);
      tensors.set(name, { dtype, shape, data: file.read(name) });
    }
  }
  change(tensors);
  rmSync(path);
  writeSafetensors(path, tensors);
  return folder;
}

/** The golden model with its short prompt and two tokens after it, since an emulated GPU is slow. */
function shortGolden(): string {
  return withExpected((tensors) => {
    const rows = 2;
    for (const [name, own] of [["prompt", undefined], ["logits", undefined], ["greedy", rows], ["greedy_logits", rows]] as const) {
      const { dtype, shape, data } = tensors.get(`${name}.1`)!;
      const bytes = data as Uint8Array;
      const kept = own ?? shape[0]!;
      tensors.set(`${name}.0`, { dtype, shape: [kept, ...shape.slice(1)], data: bytes.subarray(0, (bytes.length / shape[0]!) * kept) });
      tensors.delete(`${name}.1`);
    }
  });
}

const floats = (values: readonly number[]) => Float32Array.from(values);

describe("what fails", () => {
  test("a logit that is off, and a token that is another", () => {
    const folder = withExpected((tensors) => {
      const { data, ...rest } = tensors.get("logits.1")!;
      const bytes = (data as Uint8Array).slice();
      new DataView(bytes.buffer).setFloat32(4 * 7, 3, true);
      tensors.set("logits.1", { ...rest, data: bytes });
      tensors.set("greedy.0", { ...tensors.get("greedy.0")!, data: new Int32Array(48) });
    });
    const { status, rows } = verify([folder]);
    expect(status).toBe(1);
    const failed = new Set(rows.filter(({ pass }) => !pass).map(({ tensor }) => tensor));
    expect(failed).toEqual(new Set(["logits.1", "greedy.0"]));
  }, 120_000);

  const wrong: readonly [string, (tensors: Map<string, TensorToWrite>) => void, string][] = [
    ["no prompt", (tensors) => void tensors.delete("prompt.0"), "prompt.0"],
    ["no logits", (tensors) => void tensors.delete("logits.1"), "logits.1"],
    ["logits of fewer tokens", (tensors) => void tensors.set("logits.1", { dtype: "F32", shape: [2, 512], data: floats(Array(1024).fill(0)) }), "logits.1"],
    ["another vocabulary", (tensors) => {
      for (const name of ["prompt.1", "logits.1", "greedy.1", "greedy_logits.1"]) tensors.delete(name);
      tensors.set("logits.0", { dtype: "F32", shape: [37, 2], data: floats(Array(74).fill(0)) });
      tensors.set("greedy_logits.0", { dtype: "F32", shape: [48, 2], data: floats(Array(96).fill(0)) });
    }, "vocabulary"],
    ["a token outside the vocabulary", (tensors) => void tensors.set("prompt.1", { dtype: "I32", shape: [5], data: Int32Array.of(1, 2, 3, 4, 512) }), "batch[0].tokens[4]"],
    ["tokens of another dtype", (tensors) => void tensors.set("prompt.1", { dtype: "F32", shape: [5], data: floats([1, 2, 3, 4, 5]) }), "prompt.1"],
  ];
  for (const [what, change, named] of wrong) {
    test(`references with ${what} are refused`, () => {
      const { status, errors, rows } = verify([withExpected(change)]);
      expect([status, rows]).toEqual([2, []]);
      expect(errors).toContain(named);
    }, 60_000);
  }

  test("a folder that is no checkpoint", () => {
    const empty = newPath();
    mkdirSync(empty);
    expect(verify([empty])).toMatchObject({ status: 2, rows: [], errors: expect.stringContaining("config.json") });
    writeFileSync(join(empty, "config.json"), "{}");
    expect(verify([empty])).toMatchObject({ status: 2, rows: [] });
  });
});

test("a model without references is compared with itself", () => {
  for (const change of [{}, { layers: "gg" }, { layers: "ag", tied: true, maxPositions: 20 }] as const) {
    const folder = tinyFolder(change);
    const { status, errors, rows } = verify([`${folder}/`]);
    expect([status, errors]).toEqual([0, ""]);
    expect([...new Set(rows.map(({ way }) => way))]).toEqual([...others, ...sessions]);
    expect(rows).toHaveLength(others.length * 3 * 3 + sessions.length * 3 * 2);
    for (const { file, relRms, pass } of rows) expect([file, relRms, pass]).toEqual([`${folder}/`, 0, true]);
  }
}, 120_000);
