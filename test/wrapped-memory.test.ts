import { describe, expect, test } from "bun:test";
import { ptr } from "bun:ffi";
import { DisposedError, Tensor, linear } from "../lib/index.ts";
import type { Device, DType } from "../lib/index.ts";
import { counting, diagonal, openDevice, slowWork, thrownBy, whilePending } from "./support/devices.ts";

const device = openDevice();

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

  test("of a lookalike, or a view with members of its own, is refused", () => {
    const lookalike = (prototype: object) => Object.create(prototype, { growable: { value: false }, resizable: { value: false }, length: { value: bytes }, byteLength: { value: bytes } });
    const hidden = Object.defineProperty(new Float32Array(bytes / 4), "buffer", { value: new SharedArrayBuffer(bytes) });
    const growing = Object.defineProperty(new SharedArrayBuffer(bytes, { maxByteLength: 2 * bytes }), "growable", { value: false });
    for (const memory of [lookalike(SharedArrayBuffer.prototype), hidden, growing]) {
      expect(thrownBy(() => device.wrap("f32", shape, memory))).toMatchObject({ code: "invalid-argument", argument: "memory" });
    }
    for (const prototype of [ArrayBuffer.prototype, SharedArrayBuffer.prototype]) {
      expect(thrownBy(() => device.unsafeWrap("f32", shape, lookalike(prototype)))).toMatchObject({ code: "invalid-argument", argument: "memory" });
    }
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
    expect(thrownBy(() => device.wrap("f32", [4], new Uint8Array(shared, 1, 16))).code).toBe("shape"); // not aligned for f32
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
    const x = device.fromPointer("f32", shape, ptr(memory), { owner: memory, bytes });
    copiesThrough(device, memory, x);
    const { data } = x;
    x[Symbol.dispose]();
    expect(data.length).toBe(0); // the view is gone, the memory is not
    expect(memory[0]).toBe(10);
  });

  test("the owner of a pointer is kept as long as a typed array over its memory is", async () => {
    const owners: WeakRef<object>[] = [];
    const arrays: Float32Array[] = [];
    for (let i = 0; i < 20; i++) {
      (() => {
        const owner = { memory: new Float32Array(new ArrayBuffer(bytes)) };
        owners.push(new WeakRef(owner));
        arrays.push(device.fromPointer("f32", shape, ptr(owner.memory), { owner }).data);
      })();
    }
    const alive = async () => {
      for (let i = 0; i < 5; i++) {
        await Bun.sleep(1); // a WeakRef holds its target until the turn that looked at it is over
        Bun.gc(true);
      }
      return owners.filter((owner) => owner.deref() !== undefined).length;
    };
    expect(await alive()).toBe(20);
    expect(arrays.length).toBe(20);
    arrays.length = 0;
    expect(await alive()).toBeLessThan(10); // the engine may still see one or another on its stack
  });

  test("fromPointer checks what it can", () => {
    const memory = new Float32Array(new ArrayBuffer(bytes));
    const good = ptr(memory);
    const make = (pointer: unknown, length: unknown, dtype: unknown = "f32", options: unknown = { owner: memory }) =>
      thrownBy(() =>
        device.fromPointer(
          dtype as DType,
          shape,
          pointer as number,
          (options === null || typeof options !== "object" ? options : { bytes: length, ...options }) as { owner: object },
        ),
      ).code;
    for (const pointer of [0, -1, 1.5, NaN, null, undefined, "1", 2 ** 60])
      expect(make(pointer, bytes)).toBe("invalid-argument");
    for (const length of [0, bytes - 1, 2 ** 33]) expect(make(good, length)).toBe("shape");
    for (const length of [1.5, NaN, "1"]) expect(make(good, length)).toBe("invalid-argument");
    expect(make(good, bytes, "f64")).toBe("dtype");
    for (const options of [null, 3, {}, { owner: 3 }, { owner: null }]) {
      expect(make(good, bytes, "f32", options)).toBe("invalid-argument");
    }
    expect(thrownBy(() => device.fromPointer("f32", shape, good, { owner: memory, byte: 4 } as never)).argument).toBe("byte");
  });

  test("the caller's memory stays reachable while work on it is pending", () => {
    const { weight, out, op, check } = slowWork(device);
    const doubled = device.tensor("f32", out.shape);
    const alive = whilePending(device, (times) => {
      const held = (() => {
        const shared = new SharedArrayBuffer(out.bytes);
        new Float32Array(shared).fill(3);
        const x = device.wrap("f32", out.shape, shared);
        device.run(...Array<typeof op>(times).fill(op), linear({ x, weight, out: doubled }));
        x[Symbol.dispose]();
        return new WeakRef(shared);
      })();
      for (let i = 0; i < 3; i++) Bun.gc(true);
      return held.deref() !== undefined;
    });
    expect(alive).toBe(true);
    check();
  });
});
