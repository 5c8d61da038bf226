/** The writer of safetensors files: which files it refuses, replaces and keeps. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { FileError, GatedDeltaError } from "../lib/errors.ts";
import { temporaryName } from "../lib/checkpoint/leftovers.ts";
import { openSafetensors, safetensorsDTypes, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { SafetensorsDType, TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { scratch } from "./support/files.ts";

const { folder, newPath } = scratch();

describe("the writer", () => {
  const good: TensorToWrite = { dtype: "U8", shape: [2], data: new Uint8Array([1, 2]) };

  test("refuses what a file could not say, before it writes", () => {
    const path = newPath();
    const bad: [string, unknown, Record<string, string>?][] = [
      ["a", { ...good, dtype: "f32" }],
      ["a", { ...good, shape: [3] }],
      ["a", { ...good, shape: [-2] }],
      ["a", { ...good, shape: [0.5, 4] }],
      ["a", { ...good, shape: [2 ** 40, 2 ** 40] }],
      ["a", { dtype: "F4", shape: [1], data: new Uint8Array(1) }],
      ["__metadata__", good],
      ["\ud800", good],
      ["a", good, { x: 3 as unknown as string }],
      ["a", good, { x: "\udc00" }],
    ];
    for (const [name, tensor, metadata] of bad) {
      expect(() => writeSafetensors(path, { [name]: tensor as TensorToWrite }, metadata)).toThrow(GatedDeltaError);
    }
    for (const bad of ["", "x/", undefined]) {
      expect(() => writeSafetensors(bad as string, { a: good })).toThrow("expected a file's path");
    }
    expect(existsSync(path)).toBe(false);
  });

  test("a failing write leaves what was there, and nothing else", () => {
    const inside = join(folder, "taken");
    mkdirSync(join(inside, "x.safetensors"), { recursive: true }); // a folder under the file's name: rename fails
    expect(() => writeSafetensors(join(inside, "x.safetensors"), { a: good })).toThrow(FileError);
    expect(readdirSync(inside)).toEqual(["x.safetensors"]);
    expect(() => writeSafetensors(join(folder, "no", "such", "folder"), { a: good })).toThrow("cannot be written");
    if (process.getuid?.() !== 0) {
      chmodSync(inside, 0o500);
      expect(() => writeSafetensors(join(inside, "y.safetensors"), { a: good })).toThrow(FileError);
      chmodSync(inside, 0o700);
    }
  });

  test("replaces regular files only", () => {
    const pipe = newPath("pipe");
    if (Bun.spawnSync(["mkfifo", pipe]).exitCode !== 0) throw new Error("mkfifo failed");
    const device = newPath("device");
    symlinkSync("/dev/null", device);
    for (const path of [pipe, device, folder]) {
      const before = lstatSync(path);
      expect(() => writeSafetensors(path, { a: good })).toThrow("expected a regular file");
      expect([lstatSync(path).ino, lstatSync(path).mode]).toEqual([before.ino, before.mode]);
    }
    expect(statSync("/dev/null").isCharacterDevice()).toBe(true);
  });

  test("writes through symbolic links, which stay", () => {
    const inside = join(folder, "linked");
    mkdirSync(join(inside, "deep", "er"), { recursive: true });
    symlinkSync("deep/er", join(inside, "folder")); // folder/.. is deep
    const links: [link: string, to: string, target: string][] = [
      ["first", "file", "file"],
      ["second", "first", "file"],
      ["up", "folder/../file", "deep/file"],
      ["absolute", join(inside, "other"), "other"],
    ];
    for (const [link, to, target] of links) {
      symlinkSync(to, join(inside, link));
      for (const value of [1, 2]) { // first the link's target is missing, then it exists
        writeSafetensors(join(inside, link), { a: { ...good, data: new Uint8Array([value, value]) } });
        expect(lstatSync(join(inside, link)).isSymbolicLink()).toBe(true);
        expect(lstatSync(join(inside, target)).isFile()).toBe(true);
        using file = openSafetensors(join(inside, target));
        expect(file.read("a")[0]).toBe(value);
      }
    }
    expect(readdirSync(inside).sort()).toEqual(["absolute", "deep", "file", "first", "folder", "other", "second", "up"]);
    const loop = newPath("loop");
    symlinkSync(loop, loop);
    expect(() => writeSafetensors(loop, { a: good })).toThrow(FileError);
    expect(lstatSync(loop).isSymbolicLink()).toBe(true);
  });

  test("keeps the permissions of what is there; a new file is its owner's alone", () => {
    const path = newPath();
    const mode = () => statSync(path).mode & 0o7777;
    const umask = process.umask(0o002);
    try {
      writeSafetensors(path, { a: good });
      expect(mode()).toBe(0o600);
      for (const kept of [0o600, 0o640, 0o664, 0o444, 0o777]) {
        chmodSync(path, kept);
        writeSafetensors(path, { a: good });
        expect(mode()).toBe(kept);
      }
    } finally {
      process.umask(umask);
    }
  });

  test.skipIf(process.getuid?.() !== 0)("keeps the owner and group of what is there, where it may", () => {
    const path = newPath();
    writeSafetensors(path, { a: good });
    chownSync(path, 12345, 23456);
    chmodSync(path, 0o640);
    writeSafetensors(path, { a: good });
    const { uid, gid, mode } = statSync(path);
    expect([uid, gid, mode & 0o7777]).toEqual([12345, 23456, 0o640]);
  });

  test.skipIf(process.getuid?.() !== 0)("rights of a group that cannot be kept are not given to another", () => {
    const inside = join(folder, "shared");
    mkdirSync(inside);
    for (const one of [folder, inside]) chmodSync(one, 0o777);
    const path = join(inside, "x.safetensors");
    writeSafetensors(path, { a: good });
    chownSync(path, 12345, 23456);
    chmodSync(path, 0o664);
    const child = Bun.spawnSync([process.execPath, "-e", `
      const { writeSafetensors } = await import(${JSON.stringify(join(import.meta.dir, "../lib/checkpoint/safetensors.ts"))});
      process.setgroups([]);
      process.setgid(34567);
      process.setuid(34567);
      writeSafetensors(${JSON.stringify(path)}, { a: { dtype: "U8", shape: [1], data: new Uint8Array(1) } });
    `]);
    expect(child.stderr.toString()).toBe("");
    const { uid, gid, mode } = statSync(path);
    expect([uid, gid, mode & 0o7777]).toEqual([34567, 34567, 0o604]);
  });

  test("writers of one file have temporary files of their own, also within one process", () => {
    const names = Array.from({ length: 1000 }, () => temporaryName(join(folder, "one")));
    expect(new Set(names).size).toBe(names.length);
  });

  test("equal contents give equal files, whatever the order and the pieces", () => {
    const [first, second] = [newPath(), newPath()];
    const f32: TensorToWrite = { dtype: "F32", shape: [3], data: new Float32Array([1, 2, 3]) };
    const data = [new Float32Array([9, 1]).subarray(1), new Float32Array([2, 3])];
    const pieces: TensorToWrite = { dtype: "F32", shape: [3], data };
    writeSafetensors(first, { x: good, b: f32, a: f32 });
    writeSafetensors(second, { a: pieces, b: pieces, x: good });
    expect(readFileSync(first)).toEqual(readFileSync(second));
    using file = openSafetensors(first);
    expect(file.names).toEqual(["a", "b", "x"]);
  });

  test("anything written reads back", () => {
    const path = newPath();
    const names = Object.keys(safetensorsDTypes) as SafetensorsDType[];
    const dtypes = names.filter((name) => safetensorsDTypes[name].bits >= 8);
    const tensor = fc.record({ dtype: fc.constantFrom(...dtypes), shape: fc.array(fc.nat({ max: 4 }), { maxLength: 4 }) });
    const text = fc.string({ unit: "binary", maxLength: 8 });
    fc.assert(
      fc.property(fc.dictionary(text, tensor, { maxKeys: 6 }), fc.dictionary(text, text, { maxKeys: 3 }), (shapes, metadata) => {
        const tensors = new Map<string, TensorToWrite>();
        for (const [name, { dtype, shape }] of Object.entries(shapes)) {
          if (name === "__metadata__") continue;
          const bytes = (shape.reduce((product, size) => product * size, 1) * safetensorsDTypes[dtype].bits) / 8;
          tensors.set(name, { dtype, shape, data: Uint8Array.from({ length: bytes }, (_, i) => i * 7 + bytes) });
        }
        writeSafetensors(path, tensors, metadata);
        using file = openSafetensors(path);
        expect(new Set(file.names)).toEqual(new Set(tensors.keys()));
        expect(new Map(file.metadata)).toEqual(new Map(Object.entries(metadata)));
        for (const [name, { dtype, shape, data }] of tensors) {
          expect(file.info(name)).toMatchObject({ dtype, shape });
          expect(file.read(name)).toEqual(data as Uint8Array<ArrayBuffer>);
        }
      }),
      { numRuns: 60 },
    );
  });
});
