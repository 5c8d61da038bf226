/** Sound safetensors files, which are read as they were written. */
import { describe, expect, test } from "bun:test";
import { statSync, truncateSync } from "node:fs";
import { BoundsError, DisposedError, FileError, GatedDeltaError, ShapeError, UnsupportedError } from "../lib/errors.ts";
import { openSafetensors, safetensorsDTypes, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { SafetensorsDType, TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { oneTensor, scratch } from "./support/files.ts";

const { newPath, fileOf } = scratch();

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

  test("reads in the background land there too", async () => {
    const path = fileOf(oneTensor, 4);
    using file = openSafetensors(path);
    const buffer = new Uint8Array(8).fill(99);
    await file.readSliceAsync("a", 1, buffer.subarray(2, 4));
    await file.readSliceAsync("a", 4, buffer.subarray(0, 0));
    expect([...buffer]).toEqual([99, 99, 1, 2, 99, 99, 99, 99]);
    for (const from of [-1, 3, 0.5, NaN, 2 ** 60]) {
      expect(file.readSliceAsync("a", from, buffer.subarray(0, 2))).rejects.toBeInstanceOf(BoundsError);
    }
    expect(file.readSliceAsync("b", 0, buffer)).rejects.toThrow('expected a tensor "b"');
    truncateSync(path, statSync(path).size - 1);
    expect(file.readSliceAsync("a", 0, buffer.subarray(0, 4))).rejects.toThrow("the end of the file after 3");
    expect(() => file.read("a")).toThrow("the end of the file after 3");
    const closed = openSafetensors(fileOf(oneTensor, 4));
    closed[Symbol.dispose]();
    expect(closed.readSliceAsync("a", 0, buffer.subarray(0, 1))).rejects.toBeInstanceOf(DisposedError);
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
