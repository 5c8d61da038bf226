import { describe, expect, test } from "bun:test";
import { ptr } from "bun:ffi";
import fc from "fast-check";
import { DisposedError, ShapeError, Tensor, linear } from "../lib/index.ts";
import type { Device, DType } from "../lib/index.ts";
import { counting, diagonal, isPending, openDevice, slowWork, thrownBy } from "./support/devices.ts";

const device = openDevice();

describe("making tensors", () => {
  test("a new tensor is zeros of its dtype, shape and layout", () => {
    const kinds = { f32: Float32Array, f16: Float16Array, bf16: Uint16Array, i32: Int32Array } as const;
    for (const dtype of ["f32", "f16", "bf16", "i32"] as const) {
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
      expect(thrownBy(() => t.slice(start as number, end as number)).code).toBe("shape");
    }
    for (const axis of [-1, 2, 0.5, "0", undefined])
      expect(thrownBy(() => t.narrow(axis as number, 0, 1)).code).toBe("shape");
    expect(thrownBy(() => t.narrow(1, 3, 2)).code).toBe("shape");
    expect(thrownBy(() => t.narrow(1, "1" as never, 1)).code).toBe("shape");
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
    const t = counting(device, "f32", [6]);
    t.slice(1, 6).copyFrom(t.slice(0, 5)); // overlapping, as if through a copy
    expect([...t.data]).toEqual([0, 0, 1, 2, 3, 4]);
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
  });

  test("tensorFrom frees what it allocated when the source does not fit", () => {
    expect(thrownBy(() => device.tensorFrom("f32", [3], [1])).code).toBe("shape");
  });
});

describe("lifetimes", () => {
  test("disposal detaches the typed array and ends every view", () => {
    const t = counting(device, "f32", [4, 4]);
    const { data } = t;
    const view = t.slice(1, 3).narrow(1, 1, 2);
    t[Symbol.dispose]();
    t[Symbol.dispose]();
    expect([t.disposed, view.disposed, data.length]).toEqual([true, true, 0]);
    for (const use of [
      () => t.data,
      () => view.data,
      () => view.toFloat32(),
      () => t.slice(0, 1),
      () => t.view({ shape: [1] }),
      () => t.narrow(0, 0, 1),
      () => t.reshape([16]),
      () => t.copyFrom([]),
      () => device.tensor("f32", [4, 4]).copyFrom(t),
    ]) {
      expect(thrownBy(use)).toBeInstanceOf(DisposedError);
    }
  });

  test("disposing a view leaves its base and siblings", () => {
    const t = counting(device, "f32", [4]);
    const [left, right] = [t.slice(0, 2), t.slice(2, 4)];
    const inner = left.slice(0, 1);
    left[Symbol.dispose]();
    expect([t.disposed, left.disposed, inner.disposed, right.disposed]).toEqual([false, true, true, false]);
    expect([...right.data]).toEqual([2, 3]);
  });

  test("`using` disposes", () => {
    let kept: Tensor;
    {
      using t = device.tensor("f32", [4]);
      kept = t;
    }
    expect(kept.disposed).toBe(true);
  });

  test("taking the ArrayBuffer away is a disposal", () => {
    const t = counting(device, "f32", [4]);
    const moved = (t.data.buffer as ArrayBuffer).transfer();
    expect(t.disposed).toBe(true);
    expect(thrownBy(() => t.data)).toBeInstanceOf(DisposedError);
    expect([...new Float32Array(moved)]).toEqual([0, 1, 2, 3]);
  });

  test("tensors may be disposed while work on them is pending", () => {
    const { op, x, weight, check } = slowWork(device);
    device.run(op);
    expect(isPending(device)).toBe(true);
    x[Symbol.dispose]();
    weight[Symbol.dispose]();
    // Memory that was freed too early would be handed out again, and overwritten, here.
    const others = [x, weight].map(({ shape }) => device.tensor("f32", shape));
    for (const other of others) other.data.fill(NaN);
    device.wait();
    check();
    for (const other of others) other[Symbol.dispose]();
  });

  test("an op's tensors live as long as it is encoded", () => {
    const out = device.tensor("f32", [2, 8]);
    const x = counting(device, "f32", [2, 8]);
    const weight = diagonal(device, "f32", 8);
    device.encode(linear({ x, weight, out }));
    x[Symbol.dispose]();
    weight[Symbol.dispose]();
    device.tensor("f32", [2, 8]).data.fill(NaN);
    device.commit();
    device.wait();
    expect([...out.data]).toEqual(Array.from({ length: 16 }, (_, i) => i));
  });

  test("garbage is freed", () => {
    const bytes = 32 * 2 ** 20;
    const before = process.memoryUsage.rss();
    let most = 0;
    for (let i = 0; i < 100; i++) {
      device.tensor("f32", [bytes / 4]).data.fill(1); // touched, so that it counts
      most = Math.max(most, process.memoryUsage.rss() - before);
    }
    expect(most).toBeLessThan(40 * bytes); // 100 were made
    Bun.gc(true);
    expect(process.memoryUsage.rss() - before).toBeLessThan(20 * bytes);
  });

  test("explicit disposal frees at once", () => {
    const bytes = 64 * 2 ** 20;
    const before = process.memoryUsage.rss();
    for (let i = 0; i < 30; i++) {
      using t = device.tensor("f32", [bytes / 4]);
      t.data.fill(1);
    }
    expect(process.memoryUsage.rss() - before).toBeLessThan(5 * bytes);
  });

  test("memory outlives the tensor that is collected, while its typed array or a view is in use", () => {
    const data = (() => counting(device, "f32", [1024]).data)();
    const view = (() => counting(device, "f32", [1024]).slice(512))();
    for (let i = 0; i < 20; i++) {
      Bun.gc(true);
      device.tensor("f32", [1024]).data.fill(NaN);
    }
    expect(data[1023]).toBe(1023);
    expect(view.data[0]).toBe(512);
  });

  test("memory outlives its device", () => {
    const other = openDevice();
    const t = counting(other, "f32", [4]);
    other.close();
    expect([...t.data]).toEqual([0, 1, 2, 3]);
    t.data[0] = 9;
    expect(t.toFloat32()[0]).toBe(9);
    t[Symbol.dispose]();
    expect(t.disposed).toBe(true);
  });
});

describe("memory of the caller's", () => {
  const bytes = 65536; // aligned and long enough for every backend
  const shape = [16, bytes / 64];

  function copiesThrough(device: Device, memory: Float32Array, x: Tensor): void {
    memory.fill(5);
    const out = device.tensor("f32", shape);
    device.run(linear({ x, weight: diagonal(device, "f32", shape[1]!), out }));
    device.wait();
    expect(out.data.every((value) => value === 5)).toBe(true);
    device.run(linear({ x: out, weight: diagonal(device, "f32", shape[1]!, 2), out: x }));
    device.wait();
    expect(memory.every((value) => value === 10)).toBe(true);
  }

  test("a SharedArrayBuffer is used in place, both ways", () => {
    const shared = new SharedArrayBuffer(bytes);
    using x = device.wrap("f32", shape, shared);
    expect(x.data.buffer).toBe(shared);
    copiesThrough(device, new Float32Array(shared), x);
    const view = new Float32Array(shared);
    using y = device.wrap("f32", shape, view);
    copiesThrough(device, view, y);
  });

  test("disposing a wrapped tensor leaves the memory alone", () => {
    const shared = new SharedArrayBuffer(bytes);
    const x = device.wrap("f32", shape, shared);
    x[Symbol.dispose]();
    expect(x.disposed).toBe(true);
    expect(thrownBy(() => x.data)).toBeInstanceOf(DisposedError);
    expect(new Float32Array(shared).length).toBe(bytes / 4);
    const out = device.tensor("f32", shape);
    expect(thrownBy(() => device.run(linear({ x, weight: diagonal(device, "f32", shape[1]!), out }))).code).toBe(
      "disposed",
    );
  });

  test("an ArrayBuffer only as unsafeWrap", () => {
    const memory = new Float32Array(bytes / 4);
    const error = thrownBy(() => device.wrap("f32", shape, memory));
    expect(error.code).toBe("invalid-argument");
    expect(error.message).toContain("unsafeWrap");
    using x = device.unsafeWrap("f32", shape, memory.buffer);
    copiesThrough(device, memory, x);
    const gone = new ArrayBuffer(bytes);
    gone.transfer(0);
    expect(thrownBy(() => device.unsafeWrap("f32", shape, gone)).code).toBe("disposed");
  });

  test("detaching unsafely wrapped memory disposes the tensor", () => {
    const memory = new ArrayBuffer(bytes);
    const x = device.unsafeWrap("f32", shape, memory);
    const moved = memory.transfer();
    expect(x.disposed).toBe(true);
    x[Symbol.dispose]();
    expect(moved.byteLength).toBe(bytes);
  });

  test("memory of this device's is one more view of it", () => {
    const t = counting(device, "f32", [4, 8]);
    const wrapped = device.wrap("f32", [8], t.data.subarray(8, 16));
    expect([...wrapped.data]).toEqual([8, 9, 10, 11, 12, 13, 14, 15]);
    wrapped[Symbol.dispose]();
    expect(t.disposed).toBe(false);
    const again = device.wrap("f32", [8], t.data.subarray(8, 16));
    t[Symbol.dispose]();
    expect(again.disposed).toBe(true);
    using other = openDevice();
    expect(thrownBy(() => device.wrap("f32", [4], other.tensor("f32", [4]).data)).code).toBe("invalid-argument");
  });

  test("memory that can move, or lies wrong, is refused", () => {
    const growable = new SharedArrayBuffer(bytes, { maxByteLength: 2 * bytes });
    expect(thrownBy(() => device.wrap("f32", shape, growable)).code).toBe("invalid-argument");
    const resizable = new ArrayBuffer(bytes, { maxByteLength: 2 * bytes });
    expect(thrownBy(() => device.unsafeWrap("f32", shape, resizable)).code).toBe("invalid-argument");
    const shared = new SharedArrayBuffer(bytes);
    expect(thrownBy(() => device.wrap("f32", [4], new Uint8Array(shared, 1, 16))).code).toBe("shape"); // no f32 starts there
    const misaligned = thrownBy(() => device.wrap("f32", [4], new Uint8Array(shared, 4, 16)));
    expect(misaligned.message).toMatch(/\b(64|16384)\b/); // the alignment of the CPU, that of Metal
    expect(thrownBy(() => device.wrap("f32", [bytes], shared)).code).toBe("shape"); // too short
    expect(thrownBy(() => device.wrap("f32", [0], new SharedArrayBuffer(0))).code).toBe("shape");
    for (const memory of [undefined, null, 3, "x", {}, [1, 2]]) {
      expect(thrownBy(() => device.wrap("f32", shape, memory as never)).code).toBe("invalid-argument");
      expect(thrownBy(() => device.unsafeWrap("f32", shape, memory as never)).code).toBe("invalid-argument");
    }
  });

  test("a pointer of another library is used in place, and its owner kept", () => {
    const memory = new Float32Array(new ArrayBuffer(bytes));
    const x = Tensor.fromPointer(device, ptr(memory), bytes, "f32", shape, { owner: memory });
    copiesThrough(device, memory, x);
    const { data } = x;
    x[Symbol.dispose]();
    expect(data.length).toBe(0); // the view is gone, the memory is not
    expect(memory[0]).toBe(10);
  });

  test("fromPointer checks what it can", () => {
    const memory = new Float32Array(new ArrayBuffer(bytes));
    const good = ptr(memory);
    const make = (pointer: unknown, length: unknown, dtype: unknown = "f32", options: unknown = { owner: memory }) =>
      thrownBy(() =>
        Tensor.fromPointer(
          device,
          pointer as number,
          length as number,
          dtype as DType,
          shape,
          options as { owner: object },
        ),
      ).code;
    for (const pointer of [0, -1, 1.5, NaN, null, undefined, "1", 2 ** 60])
      expect(make(pointer, bytes)).toBe("invalid-argument");
    for (const length of [0, bytes - 1, 2 ** 33]) expect(make(good, length)).toBe("shape");
    for (const length of [1.5, NaN, "1", undefined]) expect(make(good, length)).toBe("invalid-argument");
    expect(make(good, bytes, "f64")).toBe("dtype");
    for (const options of [null, 3, {}, { owner: 3 }, { owner: null }]) {
      expect(make(good, bytes, "f32", options)).toBe("invalid-argument");
    }
    expect(thrownBy(() => Tensor.fromPointer({} as Device, good, bytes, "f32", shape, { owner: memory })).code).toBe(
      "invalid-argument",
    );
  });

  test("the caller's memory stays reachable while work on it is pending", () => {
    const { weight, out, op, check } = slowWork(device);
    const held = (() => {
      const shared = new SharedArrayBuffer(out.bytes);
      new Float32Array(shared).fill(3);
      const x = device.wrap("f32", out.shape, shared);
      device.run(op, linear({ x, weight, out: device.tensor("f32", out.shape) }));
      x[Symbol.dispose]();
      return new WeakRef(shared);
    })();
    expect(isPending(device)).toBe(true);
    for (let i = 0; i < 3; i++) Bun.gc(true);
    const alive = held.deref() !== undefined;
    device.wait();
    expect(alive).toBe(true);
    check();
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
