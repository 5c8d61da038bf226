import { describe, expect, test } from "bun:test";
import { DisposedError, PoolStep, StateHandle } from "../lib/index.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { finish, statesOn } from "./support/states.ts";

const device = openDevice();
const { newPool } = statesOn(device);

describe("handles", () => {
  test("misuse is an error and changes nothing", () => {
    using pool = newPool(2);
    using other = newPool(2);
    const handle = pool.allocate();
    const foreign = other.allocate();
    const hollow = Object.create(StateHandle.prototype) as StateHandle;
    for (const wrong of [undefined, null, 3, {}, hollow, foreign]) {
      expect(thrownBy(() => pool.step([handle, wrong as StateHandle]))).toMatchObject({
        code: "invalid-argument",
        argument: "handles[1]",
      });
      expect(thrownBy(() => pool.zero(wrong as StateHandle)).code).toBe("invalid-argument");
    }
    for (const wrong of [undefined, null, 3, "x", handle, { length: 1, 0: handle }]) {
      expect(thrownBy(() => pool.step(wrong as never)).code).toBe("invalid-argument");
    }
    expect(thrownBy(() => pool.step([handle], { undoable: 1 as never })).argument).toBe("undoable");
    for (const twice of [() => pool.step([handle, handle]), () => pool.draft([handle, handle], [1, 1])]) {
      expect(thrownBy(twice)).toMatchObject({ code: "state", argument: "handles[1]", expected: "each state once", received: "that of handles[0] again" });
    }
    expect(handle.step).toBeUndefined();

    const step = pool.step([handle]);
    for (const use of [() => pool.step([handle]), () => handle.fork(), () => handle.free(), () => pool.zero(handle)]) {
      expect(thrownBy(use).code).toBe("state");
    }
    finish(step);
    for (const use of [() => step.done(), () => step.abort()]) expect(thrownBy(use).code).toBe("state");
    step[Symbol.dispose]();

    expect([handle.freed, handle.pool]).toEqual([false, pool]);
    handle.free();
    expect(handle.freed).toBe(true);
    for (const use of [
      () => handle.free(),
      () => handle.fork(),
      () => handle.slot,
      () => pool.zero(handle),
      () => pool.step([handle]),
    ]) {
      expect(thrownBy(use)).toBeInstanceOf(DisposedError);
    }
    handle[Symbol.dispose]();
    expect(pool.free).toBe(2);
  });

  test("an empty batch is a step like any other", () => {
    using pool = newPool(1);
    const step = pool.step([]);
    expect([step.readSlots.length, step.writeSlots.length]).toEqual([0, 0]);
    step.done();
  });

  test("`using` frees, and aborts the step that it is in", () => {
    using pool = newPool(2);
    {
      using handle = pool.allocate();
      const step = pool.step([handle]);
      expect(step.open).toBe(true);
    }
    expect(pool.free).toBe(2);
  });

  test("handles of a disposed pool are freed", () => {
    const pool = newPool(2);
    const handle = pool.allocate();
    const step = pool.step([handle]);
    const state = pool.state(0);
    pool[Symbol.dispose]();
    pool[Symbol.dispose]();
    expect([pool.disposed, handle.freed, step.open, state.disposed]).toEqual([true, true, false, true]);
    for (const use of [
      () => pool.allocate(),
      () => pool.step([]),
      () => pool.state(0),
      () => pool.conv(0),
      () => pool.zero(handle),
      () => handle.fork(),
      () => step.done(),
      () => step.abort(),
    ]) {
      expect(thrownBy(use)).toBeInstanceOf(DisposedError);
    }
    step[Symbol.dispose]();
    handle[Symbol.dispose]();
  });

  test("handles that are garbage free themselves, with the step that they are in", async () => {
    using pool = newPool(64);
    const litter = () => {
      for (let i = 0; i < 40; i++) pool.step([pool.allocate()]);
      for (let i = 0; i < 20; i++) pool.allocate();
    };
    litter();
    for (let i = 0; i < 50 && pool.free < 50; i++) {
      Bun.gc(true);
      await Bun.sleep(5);
    }
    expect(pool.free).toBeGreaterThanOrEqual(50); // the engine may still see a few
  });

  test("constructors are not a way to make them", () => {
    using pool = newPool(1);
    expect(thrownBy(() => Reflect.construct(StateHandle, [pool, {}, {}])).code).toBe("invalid-argument");
    expect(thrownBy(() => Reflect.construct(PoolStep, [pool, {}, [], {}])).code).toBe("invalid-argument");
  });
});
