import { describe, expect, test } from "bun:test";
import { ptr } from "bun:ffi";
import fc from "fast-check";
import { BoundsError, DisposedError, ShapeError, Tensor, linear } from "../lib/index.ts";
import { isFloatDType } from "../lib/tensor/dtype.ts";
import { counting, diagonal, openDevice, thrownBy } from "./support/devices.ts";

const device = openDevice();

describe("making tensors", () => {
  test("a new tensor is zeros of its dtype, shape and layout", () => {
    const kinds = { f32: Float32Array, f16: Float16Array, bf16: Uint16Array, i32: Int32Array, u32: Uint32Array, id32: Int32Array, u8: Uint8Array } as const;
    for (const dtype of ["f32", "f16", "bf16", "i32", "u32", "id32", "u8"] as const) {
      const t = device.tensor(dtype, [2, 3, 4]);
      expect(t.data).toBeInstanceOf(kinds[dtype]);
      expect(t.data.length).toBe(24);
      expect(t.data.every((value) => value === 0)).toBe(true);
      expect([t.dtype, [...t.shape], [...t.strides], t.size, t.bytes, t.contiguous, t.disposed]).toEqual([
        dtype,
        [2, 3, 4],
        [12, 4, 1],
        24,
        24 * kinds[dtype].BYTES_PER_ELEMENT,
        true,
        false,
      ]);
      expect(t.device).toBe(device);
    }
  });

  test("shape and strides can't be changed", () => {
    const t = device.tensor("f32", [2, 2]);
    expect(() => ((t.shape as number[])[0] = 9)).toThrow(TypeError);
    expect(() => ((t.strides as number[])[0] = 9)).toThrow(TypeError);
    for (const change of [{ shape: [9] }, { dtype: "f16" }, { size: 9 }, { contiguous: false }, { device: null }]) {
      expect(() => Object.assign(t, change)).toThrow(TypeError);
    }
    const given = [2, 2];
    const u = device.tensor("f32", given);
    given[0] = 9;
    expect(u.shape).toEqual([2, 2]);
  });

  test("a tensor of no elements is like any other", () => {
    const t = device.tensor("f16", [0, 8]);
    expect([t.size, t.bytes, t.data.length, t.contiguous]).toEqual([0, 0, 0, true]);
    expect(t.copyFrom([]).toFloat32()).toEqual(new Float32Array(0));
    expect(t.slice(0, 0).reshape([4, 0]).data.length).toBe(0);
    t[Symbol.dispose]();
    expect(t.disposed).toBe(true);
    expect(thrownBy(() => t.data)).toBeInstanceOf(DisposedError);
  });

  test("what is no shape is refused", () => {
    const shapes: unknown[] = [[-1], [1.5], [NaN], ["2"], [2 ** 31], [undefined], [1n], [], Array(9).fill(1), [, 2]];
    for (const shape of shapes) expect(thrownBy(() => device.tensor("f32", shape as number[])).code).toBe("shape");
    const nothings: unknown[] = [undefined, null, 3, "2,2", new Int32Array([2]), { length: 1, 0: 2 }];
    for (const shape of nothings)
      expect(thrownBy(() => device.tensor("f32", shape as number[])).code).toBe("invalid-argument");
    const hostile = new Proxy([2, 2], {
      get: (target, key) => {
        if (key === "1") throw new Error("boo");
        return Reflect.get(target, key);
      },
    });
    expect(thrownBy(() => device.tensor("f32", hostile)).code).toBe("invalid-argument");
    expect(thrownBy(() => device.tensor("f64" as never, [1])).code).toBe("dtype");
    expect(thrownBy(() => device.tensor("toString" as never, [1])).code).toBe("dtype");
  });

  test("a tensor beyond an ArrayBuffer's limit is refused before it is allocated", () => {
    const limit = 2 ** 32 - 16384;
    expect(thrownBy(() => device.tensor("f32", [limit / 4 + 1])).code).toBe("shape");
    expect(thrownBy(() => device.tensor("bf16", [2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1])).code).toBe("shape");
    const largest = device.tensor("f32", [limit / 4]);
    largest.data[largest.size - 1] = 7;
    expect(largest.bytes).toBe(limit);
    expect(largest.slice(largest.size - 1).toFloat32()).toEqual(new Float32Array([7]));
    largest[Symbol.dispose]();
  });

  test("the constructor is not a way to make one", () => {
    expect(thrownBy(() => Reflect.construct(Tensor, [device, {}, "f32", 0, [1], [1], {}])).code).toBe(
      "invalid-argument",
    );
  });
});

describe("zero copies", () => {
  test("ops read what was written through the typed array, and write what it shows", () => {
    const x = device.tensor("f32", [2, 8]);
    const out = device.tensor("f32", [2, 8]);
    const weight = diagonal(device, "f32", 8, 3);
    const [before, result] = [x.data, out.data];
    const addresses = [x, out].map(({ data }) => ptr(data));
    for (let round = 1; round <= 3; round++) {
      before.fill(round);
      device.run(linear({ x, weight, out }));
      device.wait();
      expect([...result]).toEqual(Array(16).fill(3 * round));
    }
    expect(x.data).toBe(before);
    expect([x, out].map(({ data }) => ptr(data))).toEqual(addresses);
  });

  test("views lie in the same memory", () => {
    const t = counting(device, "f32", [4, 6]);
    const row = t.slice(1, 2);
    expect(row.data.buffer).toBe(t.data.buffer);
    expect(row.data.byteOffset).toBe(6 * 4);
    row.data[0] = -1;
    expect(t.data[6]).toBe(-1);
    expect(t.reshape([6, 4]).data.buffer).toBe(t.data.buffer);
  });
});

describe("views", () => {
  test("any chain of views shows the elements that plain indexing gives", () => {
    const step = fc.record({
      kind: fc.constantFrom("slice", "narrow", "reshape", "view"),
      a: fc.nat(20),
      b: fc.nat(20),
      c: fc.nat(3),
    });
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }),
        fc.array(step, { maxLength: 5 }),
        (shape, steps) => {
          const base = counting(device, "f32", shape);
          let view: Tensor = base;
          let model = nested([...base.data], shape);
          for (const { kind, a, b, c } of steps) {
            const { shape } = view;
            if (kind === "slice") {
              const start = a % (shape[0]! + 1);
              const end = start + (b % (shape[0]! - start + 1));
              view = view.slice(start, end);
              model = { shape: [end - start, ...shape.slice(1)], at: shifted(model.at, 0, start) };
            } else if (kind === "narrow") {
              const axis = c % shape.length;
              const start = a % (shape[axis]! + 1);
              const length = b % (shape[axis]! - start + 1);
              view = view.narrow(axis, start, length);
              model = { shape: shape.with(axis, length), at: shifted(model.at, axis, start) };
            } else if (kind === "reshape") {
              const target = regrouped(shape, a, b);
              let next: Tensor;
              try {
                next = view.reshape(target);
              } catch (error) {
                expect(error).toBeInstanceOf(ShapeError);
                expect(view.contiguous).toBe(false);
                continue;
              }
              view = next;
              model = nested(flat(model), target);
            } else if (shape[0]! > 0) {
              // Every second element along the first axis.
              const strides = view.strides.with(0, view.strides[0]! * 2);
              const half = [Math.ceil(shape[0]! / 2), ...shape.slice(1)];
              const { at } = model;
              view = view.view({ shape: half, strides });
              model = { shape: half, at: (index) => at(index.with(0, index[0]! * 2)) };
            }
            expect([...view.shape]).toEqual([...model.shape]);
            expect([...view.toFloat32()]).toEqual(flat(model));
            if (view.contiguous) expect([...view.data]).toEqual(flat(model));
          }
          base[Symbol.dispose]();
        },
      ),
      { numRuns: 300 },
    );
  });

  test("a packed convolution output splits into strided heads", () => {
    const packed = counting(device, "f32", [3, 40]);
    const key = packed.narrow(1, 16, 16).reshape([3, 2, 8]);
    expect([...key.strides]).toEqual([40, 8, 1]);
    expect(key.contiguous).toBe(false);
    expect([...key.narrow(1, 1, 1).slice(2).toFloat32()]).toEqual([104, 105, 106, 107, 108, 109, 110, 111]);
  });

  test("strided views have no typed array but can be copied out of and into", () => {
    const t = counting(device, "f32", [3, 4]);
    const column = t.narrow(1, 1, 2);
    expect(thrownBy(() => column.data).code).toBe("shape");
    expect([...column.toFloat32()]).toEqual([1, 2, 5, 6, 9, 10]);
    column.copyFrom([-1, -2, -3, -4, -5, -6]);
    expect([...t.data]).toEqual([0, -1, -2, 3, 4, -3, -4, 7, 8, -5, -6, 11]);
  });

  test("a view can't reach outside its tensor", () => {
    const t = counting(device, "f32", [4, 4]);
    const bad: unknown[] = [
      { shape: [17] },
      { offset: 1, shape: [16] },
      { shape: [4, 4], strides: [5, 1] },
      { shape: [2], strides: [0] },
      { shape: [2], strides: [-1] },
      { shape: [2], strides: [1.5] },
      { shape: [2], strides: [1, 1] },
      { shape: [2], strides: ["1"] },
      { shape: [2 ** 31 - 1, 2], strides: [2 ** 52, 1] },
    ];
    for (const layout of bad) expect(thrownBy(() => t.view(layout as never)).code).toBe("shape");
    for (const offset of [-1, 0.5, NaN, 2 ** 53])
      expect(thrownBy(() => t.view({ offset, shape: [1] })).code).toBe("range");
    for (const layout of [undefined, null, 3, {}])
      expect(thrownBy(() => t.view(layout as never)).code).toBe("invalid-argument");
    const rows = t.slice(1, 3);
    expect(thrownBy(() => rows.view({ shape: [9] })).code).toBe("shape");
    for (const [start, end] of [
      [-1, 2],
      [2, 1],
      [0, 5],
      [0.5, 1],
      [NaN, 1],
      ["0", 1],
    ]) {
      expect(thrownBy(() => t.slice(start as number, end as number))).toBeInstanceOf(BoundsError);
    }
    for (const axis of [-1, 2, 0.5, "0", undefined])
      expect(thrownBy(() => t.narrow(axis as number, 0, 1))).toBeInstanceOf(BoundsError);
    expect(thrownBy(() => t.narrow(1, 3, 2))).toMatchObject({ code: "range", argument: "length", expected: "an integer in 0..1" });
    expect(thrownBy(() => t.narrow(1, 5, 0))).toMatchObject({ code: "range", argument: "start" });
    expect(thrownBy(() => t.narrow(1, "1" as never, 1)).code).toBe("invalid-argument");
    expect(thrownBy(() => t.reshape([15])).code).toBe("shape");
    expect(thrownBy(() => t.narrow(1, 0, 2).reshape([8])).code).toBe("shape");
  });
});

describe("copying", () => {
  test("numbers are rounded once to the tensor's dtype", () => {
    const values = [1 / 3, 65504, -0, 1e-8, 3.0000001];
    const t = (dtype: "f32" | "f16" | "bf16") => [...device.tensorFrom(dtype, [5], values).toFloat32()];
    expect(t("f32")).toEqual(values.map(Math.fround));
    expect(t("f16")).toEqual(values.map(Math.f16round));
    expect(t("bf16")).toEqual([0.333984375, 65536, -0, 1.0011717677116394e-8, 3]);
  });

  test("a Uint16Array is bf16's bits, for bf16 only", () => {
    expect([...device.tensorFrom("bf16", [2], new Uint16Array([0x3f80, 0x4000])).toFloat32()]).toEqual([1, 2]);
    expect([...device.tensorFrom("f32", [2], new Uint16Array([1, 2])).toFloat32()]).toEqual([1, 2]);
  });

  test("tensors are copied by element, whatever their layout and dtype", () => {
    const source = counting(device, "f32", [4, 6]).narrow(1, 2, 3);
    for (const dtype of ["f32", "f16", "bf16"] as const) {
      const target = device.tensor(dtype, [4, 8]).narrow(1, 5, 3);
      expect([...target.copyFrom(source).toFloat32()]).toEqual([...source.toFloat32()]);
    }
    const integers = counting(device, "i32", [3], 2 ** 30);
    expect([...device.tensor("i32", [3]).copyFrom(integers).data]).toEqual([...integers.data]);
    const words = counting(device, "u32", [3], 2 ** 32 - 3);
    expect([...device.tensor("u32", [3]).copyFrom(words).data]).toEqual([2 ** 32 - 3, 2 ** 32 - 2, 2 ** 32 - 1]);
    const gone = device.tensor("f32", [4, 3]);
    gone[Symbol.dispose]();
    expect(thrownBy(() => device.tensor("f32", [4, 3]).copyFrom(gone))).toMatchObject({ code: "disposed", op: "tensor.copyFrom", argument: "source" });
    const t = counting(device, "f32", [6]);
    t.slice(1, 6).copyFrom(t.slice(0, 5)); // overlapping, as if through a copy
    expect([...t.data]).toEqual([0, 0, 1, 2, 3, 4]);
  });

  test("long rows are copied like short ones: gaps stay, overlaps are as if through a copy", () => {
    for (const dtype of ["f32", "f16", "bf16", "i32", "u32", "id32", "u8"] as const) {
      const wide = counting(device, dtype, [3, 256], 0, isFloatDType(dtype) ? 0.5 : 1);
      const before = [...wide.data];
      const source = wide.narrow(1, 3, 100);
      const target = counting(device, dtype, [3, 200], 7, 0);
      target.narrow(1, 50, 100).copyFrom(source);
      for (let row = 0; row < 3; row++) {
        for (const column of [0, 49, 50, 51, 149, 150, 199]) {
          const copied = column >= 50 && column < 150;
          const expected = copied ? before[row * 256 + column - 47]! : target.data[0]!;
          expect(target.data[row * 200 + column]).toBe(expected);
        }
      }
      wide.narrow(1, 20, 100).copyFrom(source);
      for (let i = 0; i < 100; i++) expect(wide.data[256 + 20 + i]).toBe(before[256 + 3 + i]!);
      const whole = wide.reshape([3 * 256]);
      whole.slice(1, 768).copyFrom(whole.slice(0, 767));
      expect(whole.data[767]).toBe(before[766]!);
    }
  });

  test("what does not fit is refused and writes nothing", () => {
    const t = counting(device, "f32", [3]);
    const before = [...t.data];
    const wrong: (number[] | Float32Array | Tensor)[] = [
      [1, 2],
      [1, 2, 3, 4],
      new Float32Array(2),
      device.tensor("f32", [2]),
      device.tensor("f32", [3, 1]),
    ];
    for (const source of wrong) {
      expect(thrownBy(() => t.copyFrom(source)).code).toBe("shape");
    }
    const sources: unknown[] = [
      undefined,
      null,
      3,
      "123",
      {},
      [1, "2", 3],
      [1, undefined, 3],
      [1, , 3],
      [1, 2n, 3],
      new BigInt64Array(3),
      new DataView(new ArrayBuffer(12)),
      {
        length: 3,
        0: 1,
        1: 2,
        get 2() {
          throw new Error("boo");
        },
      },
    ];
    for (const source of sources) expect(thrownBy(() => t.copyFrom(source as number[])).code).toBe("invalid-argument");
    expect(thrownBy(() => t.copyFrom({ length: 2 ** 53 } as never)).code).toBe("shape");
    expect(thrownBy(() => t.copyFrom(device.tensor("i32", [3]))).code).toBe("dtype");
    expect([...t.data]).toEqual(before);
    const i = counting(device, "i32", [2]);
    for (const source of [[0.5, 1], [2 ** 31, 0], [NaN, 0], new Float32Array([0.5, 0])]) {
      expect(thrownBy(() => i.copyFrom(source)).code).toBe("range");
    }
    expect([...i.data]).toEqual([0, 1]);
    const u = counting(device, "u32", [2]);
    for (const source of [[0.5, 1], [2 ** 32, 0], [-1, 0], [NaN, 0], new Int32Array([0, -1])]) {
      expect(thrownBy(() => u.copyFrom(source)).code).toBe("range");
    }
    for (const other of ["f32", "i32"] as const) expect(thrownBy(() => u.copyFrom(device.tensor(other, [2]))).code).toBe("dtype");
    expect([...u.data]).toEqual([0, 1]);
  });

  test("tensorFrom frees what it allocated when the source does not fit", () => {
    expect(thrownBy(() => device.tensorFrom("f32", [3], [1])).code).toBe("shape");
  });
});

/** A nested array as a function of an index. */
interface Model {
  readonly shape: readonly number[];
  at(index: readonly number[]): number;
}

function nested(values: readonly number[], shape: readonly number[]): Model {
  return { shape: [...shape], at: (index) => values[index.reduce((sum, i, axis) => sum * shape[axis]! + i, 0)]! };
}

function shifted(at: Model["at"], axis: number, by: number): Model["at"] {
  return (index) => at(index.with(axis, index[axis]! + by));
}

function flat({ shape, at }: Model): number[] {
  let indices: number[][] = [[]];
  for (const length of shape) indices = indices.flatMap((index) => Array.from({ length }, (_, i) => [...index, i]));
  return indices.map(at);
}

/** Another shape of the same size: two dimensions merged, or one split. */
function regrouped(shape: readonly number[], a: number, b: number): number[] {
  const axis = a % shape.length;
  if (b % 2 === 0 && axis + 1 < shape.length) {
    return [...shape.slice(0, axis), shape[axis]! * shape[axis + 1]!, ...shape.slice(axis + 2)];
  }
  const divisor = [2, 3, 1].find((d) => shape[axis]! % d === 0)!;
  return [...shape.slice(0, axis), divisor, shape[axis]! / divisor, ...shape.slice(axis + 1)];
}
