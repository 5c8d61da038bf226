/** Files with a format, a version and a checksum: their bytes, and refused files. */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { FileError } from "../lib/errors.ts";
import { CheckedFile, writeChecked, writeCheckedAsync } from "../lib/checkpoint/checked-file.ts";
import type { CheckedFormat } from "../lib/checkpoint/checked-file.ts";
import { openSafetensors, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { scratch } from "./support/files.ts";

const { newPath } = scratch();
const interleaved: CheckedFormat = { name: "test-format", version: "3", noun: "a test", earlier: "by hand: write it again", entries: "interleaved" };
const first: CheckedFormat = { ...interleaved, entries: "first" };

const pieces = [Float32Array.of(1, 2), Float32Array.of(-0)];
const tensors = new Map<string, TensorToWrite>([
  ["a", { dtype: "I32", shape: [3], data: Int32Array.of(0, 5, 9) }],
  ["b", { dtype: "F32", shape: [3], data: pieces }],
  ["c", { dtype: "BF16", shape: [0, 2], data: new Uint16Array(0) }],
]);
const metadata = { size: "12", colour: "blue" };

function written(format: CheckedFormat): string {
  const path = newPath();
  writeChecked("save", path, format, metadata, tensors);
  return path;
}

function open(path: string, format = interleaved): CheckedFile {
  return new CheckedFile("load", path, format);
}

const sha256 = (...parts: (string | Uint8Array)[]) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest("hex");
const texts = [["colour", "blue"], ["format", "test-format"], ["size", "12"], ["version", "3"]];
const entries = [["a", "I32", [3]], ["b", "F32", [3]], ["c", "BF16", [0, 2]]];
const [a, b] = [new Uint8Array(Int32Array.of(0, 5, 9).buffer), new Uint8Array(Float32Array.of(1, 2, -0).buffer)];

describe("a checked file", () => {
  test("has the checksum of its format", () => {
    const [a0, b0, c0] = entries.map((entry) => JSON.stringify(entry)) as [string, string, string];
    const expected = new Map([
      [first, sha256(JSON.stringify([texts, entries]), a, b)],
      [interleaved, sha256(JSON.stringify(texts), a0, a, b0, b, c0)],
    ]);
    for (const [format, checksum] of expected) {
      using file = openSafetensors(written(format));
      expect([...file.metadata]).toEqual([["format", "test-format"], ["version", "3"], ["size", "12"], ["colour", "blue"], ["sha256", checksum]]);
    }
  });

  test("has the same bytes where it is written in the background", async () => {
    for (const format of [first, interleaved]) {
      const path = newPath();
      let calls = 0;
      await writeCheckedAsync("save", path, format, metadata, tensors, () => void calls++);
      expect(readFileSync(path)).toEqual(readFileSync(written(format)));
      expect(calls).toBeGreaterThan(2 * tensors.size);
    }
    const stopped = newPath();
    const writing = writeCheckedAsync("save", stopped, first, metadata, tensors, () => {
      throw new Error("stopped");
    });
    await expect(writing).rejects.toThrow("stopped");
    expect(() => open(stopped, first)).toThrow("no such file");
  });

  test("is read in the background, each tensor in its dtype", async () => {
    using file = open(written(interleaved));
    const read = await file.readAll();
    expect(read.integers("a", 0, 9)).toEqual(Int32Array.of(0, 5, 9));
    expect(read.floats("b", ["f32"])).toEqual({ dtype: "f32", data: Float32Array.of(1, 2, -0) });
    expect(read.floats("c", ["f32", "bf16"])).toEqual({ dtype: "bf16", data: new Uint16Array(0) });
    for (const [run, words] of [
      [() => read.integers("a", 0, 8), "a of numbers in 0..8, got 9"],
      [() => read.integers("a", 1, 9), "a of numbers in 1..9, got 0"],
      [() => read.integers("b", 0, 9), "b of dtype I32, got F32"],
      [() => read.floats("b", ["f16", "bf16"]), "b of dtype f16 or bf16, got F32"],
      [() => read.floats("a", ["f32"]), "a of dtype f32, got I32"],
      [() => read.floats("d", ["f32"]), '"d"'],
      [() => file.count("size", 11), "metadata size to be a whole number in 0..11"],
      [() => file.count("colour", 11), "metadata colour"],
      [() => file.count("none", 11), "metadata none"],
      [() => file.text("colour", ["red", "green"]), 'metadata colour "red" or "green", got "blue"'],
      [() => file.text("none", ["red"]), "got none"],
      [() => file.expectTensor("b", "F32", [1, 3]), 'tensor "b" to be F32 [1, 3], got F32 [3]'],
      [() => file.expectTensor("b", "F16", [3]), "F16"],
    ] as const) {
      expect(run).toThrow(FileError);
      expect(run).toThrow(words);
    }
    expect([file.count("size", 12), file.text("colour", ["red", "blue"])]).toEqual([12, "blue"]);
    file.expectTensor("b", "F32", [3]);
  });

  test("of another format or version is refused by name", () => {
    const rewritten = (change: Record<string, string>) => {
      const path = newPath();
      writeSafetensors(path, tensors, { format: "test-format", version: "3", ...change });
      return path;
    };
    for (const [change, words] of [
      [{ format: "other" }, 'expected metadata format "test-format", got "other"'],
      [{ version: "2" }, "expected a test of version 3 of the format, got one of version 2, which an earlier gated-delta wrote by hand: write it again"],
      [{ version: "4" }, "got one of version 4, which a later gated-delta wrote"],
      [{ version: "three" }, 'got version "three"'],
    ] as const) expect(() => open(rewritten(change))).toThrow(words);
    const { earlier: _, ...plain } = interleaved;
    expect(() => open(rewritten({ version: "1" }), plain)).toThrow(/which an earlier gated-delta wrote$/);
    const bare = newPath();
    writeSafetensors(bare, tensors);
    expect(() => open(bare)).toThrow("got none");
  });

  test.each([first, interleaved])("with other bytes or metadata is refused: entries $entries", async (format) => {
    const path = written(format);
    const bytes = readFileSync(path);
    const damaged = newPath();
    const changes = [(copy: Buffer) => void (copy[copy.length - 1]! ^= 1), (copy: Buffer) => void copy.write("p", copy.indexOf("blue"))];
    for (const change of changes) {
      const copy = Buffer.from(bytes);
      change(copy);
      writeFileSync(damaged, copy);
      using file = open(damaged, format);
      const error: unknown = await file.readAll().then(() => undefined, (reason: unknown) => reason);
      expect(error).toBeInstanceOf(FileError);
      expect((error as FileError).message).toMatch(/^load: .*expected contents of checksum/);
    }
    using sound = open(path, format);
    await sound.readAll();
  });
});
