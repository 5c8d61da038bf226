import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, truncateSync,
} from "node:fs";
import { join } from "node:path";
import { BoundsError, DisposedError, FileError, GatedDeltaError, ShapeError, UnsupportedError } from "../lib/errors.ts";
import { temporaryName } from "../lib/safetensors/leftovers.ts";
import { openSafetensors, safetensorsDTypes, writeSafetensors } from "../lib/safetensors/safetensors.ts";
import type { SafetensorsDType, TensorToWrite } from "../lib/safetensors/safetensors.ts";
import { oneTensor, scratch } from "./support/files.ts";

const { folder, newPath, fileOf } = scratch();

describe("a sound file", () => {
  test("reads back what was written, in every dtype", () => {
    const tensors: Record<string, TensorToWrite> = {};
    const expected = new Map<string, Uint8Array<ArrayBuffer>>();
    for (const [dtype, { bits }] of Object.entries(safetensorsDTypes) as [SafetensorsDType, { bits: number }][]) {
      const data = Uint8Array.from({ length: bits }, (_, i) => (i * 37 + bits) & 0xff); // 8 elements
      tensors[`t.${dtype}`] = { dtype, shape: [2, 4], data };
      expected.set(`t.${dtype}`, data);
    }
    const path = newPath();
    writeSafetensors(path, tensors, { format: "pt", "ключ \"\\\n": "значение\u0000" });
    using file = openSafetensors(path);
    expect([...file.names].sort()).toEqual([...expected.keys()].sort());
    expect([...file.metadata]).toEqual([["format", "pt"], ["ключ \"\\\n", "значение\u0000"]]);
    for (const [name, data] of expected) {
      const info = file.info(name);
      expect<string>(`t.${info.dtype}`).toBe(name);
      expect(info.shape).toEqual([2, 4]);
      expect(info.bytes).toBe(data.length);
      expect(file.read(name)).toEqual(data);
      const { bits } = safetensorsDTypes[info.dtype];
      expect((info.offset * 8) % bits).toBe(0); // every tensor starts at a multiple of its element size
    }
    expect((statSync(path).size - [...expected.values()].reduce((sum, data) => sum + data.length, 0)) % 8).toBe(0);
  });

  test("numbers", () => {
    const path = newPath();
    writeSafetensors(path, {
      bool: { dtype: "BOOL", shape: [2], data: new Uint8Array([0, 1]) },
      u8: { dtype: "U8", shape: [2], data: new Uint8Array([0, 255]) },
      i8: { dtype: "I8", shape: [2], data: new Int8Array([-128, 127]) },
      i16: { dtype: "I16", shape: [2], data: new Int16Array([-32768, 32767]) },
      u16: { dtype: "U16", shape: [1], data: new Uint16Array([65535]) },
      i32: { dtype: "I32", shape: [2], data: new Int32Array([-2147483648, 2147483647]) },
      u32: { dtype: "U32", shape: [1], data: new Uint32Array([4294967295]) },
      i64: { dtype: "I64", shape: [2], data: new BigInt64Array([-(2n ** 53n), 2n ** 63n - 1n]) },
      u64: { dtype: "U64", shape: [1], data: new BigUint64Array([2n ** 64n - 1n]) },
      f16: { dtype: "F16", shape: [3], data: new Float16Array([1.5, -65504, NaN]) },
      bf16: { dtype: "BF16", shape: [2], data: new Uint16Array([0x3f80, 0xff80]) },
      f32: { dtype: "F32", shape: [2], data: new Float32Array([0.1, -Infinity]) },
      f64: { dtype: "F64", shape: [1], data: new Float64Array([0.1]) },
      e4m3: { dtype: "F8_E4M3", shape: [5], data: new Uint8Array([0x38, 0x7e, 0x01, 0xff, 0x80]) },
      e5m2: { dtype: "F8_E5M2", shape: [5], data: new Uint8Array([0x3c, 0x7b, 0x01, 0xfc, 0x7d]) },
      e8m0: { dtype: "F8_E8M0", shape: [3], data: new Uint8Array([127, 0, 255]) },
      e4m3fnuz: { dtype: "F8_E4M3FNUZ", shape: [3], data: new Uint8Array([0x40, 0x7f, 0x80]) },
      e5m2fnuz: { dtype: "F8_E5M2FNUZ", shape: [3], data: new Uint8Array([0x40, 0x7f, 0x80]) },
    });
    using file = openSafetensors(path);
    const cases: [string, "Float32Array" | "Float64Array", number[]][] = [
      ["bool", "Float32Array", [0, 1]],
      ["u8", "Float32Array", [0, 255]],
      ["i8", "Float32Array", [-128, 127]],
      ["i16", "Float32Array", [-32768, 32767]],
      ["u16", "Float32Array", [65535]],
      ["i32", "Float64Array", [-2147483648, 2147483647]],
      ["u32", "Float64Array", [4294967295]],
      ["i64", "Float64Array", [-(2 ** 53), 2 ** 63]],
      ["u64", "Float64Array", [2 ** 64]],
      ["f16", "Float32Array", [1.5, -65504, NaN]],
      ["bf16", "Float32Array", [1, -Infinity]],
      ["f32", "Float32Array", [Math.fround(0.1), -Infinity]],
      ["f64", "Float64Array", [0.1]],
      ["e4m3", "Float32Array", [1, 448, 2 ** -9, NaN, -0]],
      ["e5m2", "Float32Array", [1, 57344, 2 ** -16, -Infinity, NaN]],
      ["e8m0", "Float32Array", [1, 2 ** -127, NaN]],
      ["e4m3fnuz", "Float32Array", [1, 240, NaN]],
      ["e5m2fnuz", "Float32Array", [1, 57344, NaN]],
    ];
    expect(cases.map(([name]) => name).sort()).toEqual([...file.names].sort());
    for (const [name, kind, values] of cases) {
      const floats = file.floats(name);
      expect([name, floats.constructor.name, [...floats]]).toEqual([name, kind, values]);
      expect([...file.float64(name)]).toEqual(values);
      expect([...file.float32(name)]).toEqual(values.map(Math.fround));
    }
  });

  test("what is no real number an element has bytes only", () => {
    const path = newPath();
    writeSafetensors(path, {
      c: { dtype: "C64", shape: [1], data: new Float32Array([1, 2]) },
      f: { dtype: "F4", shape: [2], data: new Uint8Array([0x12]) },
    });
    using file = openSafetensors(path);
    expect(() => file.floats("c")).toThrow(UnsupportedError);
    expect(() => file.floats("f")).toThrow("F4");
    expect(file.read("f")).toEqual(new Uint8Array([0x12]));
  });

  test("empty and 0-d tensors, and a file without any", () => {
    const path = newPath();
    writeSafetensors(path, {
      scalar: { dtype: "F32", shape: [], data: new Float32Array([7]) },
      none: { dtype: "F32", shape: [0, 3], data: new Float32Array(0) },
      other: { dtype: "F32", shape: [5, 0], data: [] },
    });
    using file = openSafetensors(path);
    expect(file.info("scalar").shape).toEqual([]);
    expect([...file.floats("scalar")]).toEqual([7]);
    expect(file.read("none")).toHaveLength(0);
    expect(file.floats("other")).toHaveLength(0);
    using empty = openSafetensors(fileOf("{}"));
    expect(empty.names).toEqual([]);
    writeSafetensors(path, {});
    using rewritten = openSafetensors(path);
    expect(rewritten.names).toEqual([]);
  });

  test("names that objects treat specially are names like any other", () => {
    const path = newPath();
    const tensor: TensorToWrite = { dtype: "U8", shape: [1], data: new Uint8Array([3]) };
    const names = ["__proto__", "1", "constructor", ""];
    writeSafetensors(path, new Map(names.map((name) => [name, tensor])), new Map([["__proto__", "p"]]));
    using file = openSafetensors(path);
    expect([...file.names].sort()).toEqual(["", "1", "__proto__", "constructor"]);
    expect(file.metadata.get("__proto__")).toBe("p");
    expect(file.has("toString")).toBe(false);
    expect(() => file.info("toString")).toThrow(FileError);
  });

  test("offsets may come in any order and in any form of a number, with spaces and unknown fields between", () => {
    const path = fileOf(
      ` { "b" : {"data_offsets":[2.0,4e0],"shape":[2],"dtype":"U8","extra":{"deep":[1,2.5e-3,{"x":null}],"t":true}} ,
      \t"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   `,
      4,
    );
    using file = openSafetensors(path);
    expect(file.names).toEqual(["b", "a"]);
    expect(file.read("b")).toEqual(new Uint8Array([2, 3]));
    expect(file.read("a")).toEqual(new Uint8Array([0, 1]));
  });

  test("reads land in the caller's memory, whole or in part", () => {
    using file = openSafetensors(fileOf(oneTensor, 4));
    const buffer = new Uint8Array(8).fill(99);
    file.readInto("a", buffer.subarray(2, 6));
    expect([...buffer]).toEqual([99, 99, 0, 1, 2, 3, 99, 99]);
    const part = new Uint8Array(2);
    file.readSlice("a", 1, part);
    expect([...part]).toEqual([1, 2]);
    const shared = new Uint8Array(new SharedArrayBuffer(4));
    file.readInto("a", shared);
    expect([...shared]).toEqual([0, 1, 2, 3]);
    for (const length of [3, 5, 0]) expect(() => file.readInto("a", new Uint8Array(length))).toThrow(ShapeError);
    for (const from of [-1, 3, 0.5, NaN, 2 ** 60]) expect(() => file.readSlice("a", from, part)).toThrow(BoundsError);
    expect(() => file.read("b")).toThrow('expected a tensor "b"');
  });

  test("a closed file says so, and closing twice is nothing", () => {
    const file = openSafetensors(fileOf(oneTensor, 4));
    file[Symbol.dispose]();
    file[Symbol.dispose]();
    expect(file.names).toEqual(["a"]);
    expect(() => file.read("a")).toThrow(DisposedError);
  });

  test("a file replaced by a rename is still read as it was", () => {
    const path = fileOf(oneTensor, 4);
    using file = openSafetensors(path);
    writeSafetensors(path, { a: { dtype: "U8", shape: [4], data: new Uint8Array([9, 9, 9, 9]) } });
    expect([...file.read("a")]).toEqual([0, 1, 2, 3]);
    using replaced = openSafetensors(path);
    expect([...replaced.read("a")]).toEqual([9, 9, 9, 9]);
  });

  test("beyond 4 GiB, by slices (a sparse file)", () => {
    const big = 5 * 2 ** 30;
    const path = fileOf(
      `{"big":{"dtype":"U8","shape":[${big}],"data_offsets":[0,${big}]},
        "z":{"dtype":"U8","shape":[2],"data_offsets":[${big},${big + 2}]}}`,
    );
    truncateSync(path, statSync(path).size + big + 2);
    using file = openSafetensors(path);
    const end = new Uint8Array(4).fill(1);
    file.readSlice("big", big - 4, end);
    expect([...end]).toEqual([0, 0, 0, 0]);
    expect([...file.read("z")]).toEqual([0, 0]);
    expect(() => file.read("big")).toThrow(GatedDeltaError);
    try {
      file.read("big");
    } catch (error) {
      expect((error as GatedDeltaError).code).toBe("out-of-memory");
    }
  });
});

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
      for (const value of [1, 2]) { // what the link names is not there, then it is
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
