import { describe, expect, test } from "bun:test";
import { DisposedError, Tensor, linear } from "../lib/index.ts";
import { native } from "../lib/device/device-handle.ts";
import type { Handle } from "../lib/native/handle.ts";
import { storageOf } from "../lib/tensor/tensor.ts";
import { counting, diagonal, openDevice, slowWork, thrownBy, whilePending } from "./support/devices.ts";
import { isReleased } from "./support/raw-ops.ts";

const device = openDevice();

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
    const check = whilePending(device, (times) => {
      const { op, x, weight, check } = slowWork(device);
      for (let i = 0; i < times; i++) device.run(op);
      x[Symbol.dispose]();
      weight[Symbol.dispose]();
      // If memory were freed too early, it would be handed out again here, and overwritten.
      using others = new DisposableStack();
      for (const { shape } of [x, weight]) others.use(device.tensor("f32", shape)).data.fill(NaN);
      return check;
    });
    check();
  });

  test("an op's tensors live as long as it is encoded", () => {
    const out = device.tensor("f32", [2, 8]);
    const x = counting(device, "f32", [2, 8]);
    const weight = diagonal(device, "f32", 8);
    device.encode(linear({ x, weight, out }));
    x[Symbol.dispose]();
    weight[Symbol.dispose]();
    device.tensor("f32", [2, 8]).data.fill(NaN);
    device.submit();
    device.wait();
    expect([...out.data]).toEqual(Array.from({ length: 16 }, (_, i) => i));
  });

  // The native side reports which buffers are freed; the size of the process would show only when the collector ran.
  /** Makes tensors without keeping references to them; returns their buffers' handles. */
  const litter = (count: number, bytes: number) =>
    Array.from({ length: count }, () => storageOf(device.tensor("f32", [bytes / 4])).handle);
  const freed = (handles: readonly Handle[]) => handles.filter((handle) => isReleased(device[native], handle)).length;

  test("garbage is freed", async () => {
    const handles = litter(100, 16384);
    for (let round = 0; round < 100 && freed(handles) < 90; round++) {
      Bun.gc(true);
      await Bun.sleep(1);
    }
    expect(freed(handles)).toBeGreaterThanOrEqual(90); // the collector may mistake a stale word for a reference
  });

  test("the collector knows how much memory garbage holds, and runs without being asked", async () => {
    const handles: Handle[] = [];
    // A few words each to the engine, but in fact 64 MiB, none of it touched.
    for (let round = 0; round < 500 && freed(handles) === 0; round++) {
      handles.push(...litter(4, 64 * 2 ** 20));
      await Bun.sleep(1);
    }
    expect(freed(handles)).toBeGreaterThan(0);
  });

  test("explicit disposal frees at once", () => {
    const bytes = 64 * 2 ** 20;
    const before = process.memoryUsage.rss();
    for (let i = 0; i < 30; i++) {
      using t = device.tensor("f32", [bytes / 4]);
      t.data.fill(1);
    }
    expect(process.memoryUsage.rss() - before).toBeLessThan(15 * bytes);
    const kept = device.tensor("f32", [4]);
    const { handle } = storageOf(kept);
    expect(isReleased(device[native], handle)).toBe(false);
    kept[Symbol.dispose]();
    expect(isReleased(device[native], handle)).toBe(true);
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
