import { describe, expect, test } from "bun:test";
import { DisposedError, Plan, Tensor, copySlots, linear } from "../lib/index.ts";
import type { Pass } from "../lib/index.ts";
import { counting, diagonal, openDevice, slowWork, thrownBy, whilePending } from "./support/devices.ts";
import { fallen } from "./support/memory.ts";

const device = openDevice();

/** A pool of three slots and a plan that copies between them. */
function copying(readSlots: number[] | Int32Array | Tensor<"i32">, writeSlots: number[] | Int32Array | Tensor<"i32">) {
  const pool = counting(device, "f32", [3, 4]);
  const plan = device.plan((pass) => pass.copySlots({ pool, readSlots, writeSlots }));
  const first = () => [0, 1, 2].map((slot) => pool.data[slot * 4]!);
  return { pool, plan, first };
}

describe("plans", () => {
  test("a plan runs when told to, as often as told to, over the tensors' values of then", () => {
    const [a, b] = [device.tensor("f32", [1, 8]), device.tensor("f32", [1, 8])];
    const twice = diagonal(device, "f32", 8, 2);
    using plan = device.plan((pass) => {
      pass.linear({ x: a, weight: twice, out: b });
      pass.encode(linear({ x: b, weight: twice, out: a }));
    });
    device.wait();
    expect(plan.device).toBe(device);
    a.data.fill(1);
    const last = device.lastTicket;
    expect([plan.run(), plan.run(), plan.run()]).toEqual([last + 1, last + 2, last + 3]);
    device.wait();
    expect([a.data[0], b.data[0]]).toEqual([64, 32]);
    a.data.fill(10);
    plan.run();
    device.wait();
    expect(b.data[7]).toBe(20);
  });

  test("a replay comes after what was encoded before", () => {
    const [a, b, c] = [
      counting(device, "f32", [1, 8], 1, 0),
      device.tensor("f32", [1, 8]),
      device.tensor("f32", [1, 8]),
    ];
    using plan = device.plan((pass) => pass.linear({ x: b, weight: diagonal(device, "f32", 8, 2), out: c }));
    device.encode(linear({ x: a, weight: diagonal(device, "f32", 8, 3), out: b }));
    plan.run();
    device.wait();
    expect(c.data[0]).toBe(6);
  });

  test("arrays of index data are read anew at each replay", () => {
    for (const make of [(...slots: number[]) => slots, (...slots: number[]) => Int32Array.from(slots)]) {
      const [read, write] = [make(0), make(1)];
      const { plan, first } = copying(read, write);
      plan.run();
      read[0] = 2;
      plan.run();
      write[0] = 0;
      // A pending replay uses the values at the time of its call.
      device.wait();
      expect(first()).toEqual([0, 8, 8]);
      read[0] = -1;
      write[0] = 2;
      plan.run();
      device.wait();
      expect(first()).toEqual([0, 8, 0]);
      plan[Symbol.dispose]();
    }
  });

  test("so are tensors of index data", () => {
    const [read, write] = [device.tensorFrom("i32", [1], [0]), device.tensorFrom("i32", [1], [1])];
    const { plan, first } = copying(read, write);
    plan.run();
    device.wait();
    read.data[0] = 2;
    plan.run();
    device.wait();
    expect(first()).toEqual([0, 8, 8]);
    write.data[0] = 3;
    expect(thrownBy(() => plan.run()).code).toBe("range");
    plan[Symbol.dispose]();
  });

  test("a replay with index data that became wrong runs nothing", () => {
    const read: unknown[] = [0];
    const { plan, pool, first } = copying(read as number[], [1]);
    for (const [value, code] of [
      [3, "range"],
      [-2, "range"],
      [2 ** 31, "range"],
      [0.5, "invalid-argument"],
      ["1", "invalid-argument"],
    ] as const) {
      read[0] = value;
      const error = thrownBy(() => plan.run());
      expect([error.code, error.op, error.argument]).toEqual([code, "copySlots", "readSlots[0]"]);
    }
    read.splice(0, 1, 0, 0);
    expect(thrownBy(() => plan.run()).code).toBe("shape");
    read.length = 0;
    expect(thrownBy(() => plan.run()).code).toBe("shape");
    const last = device.lastTicket;
    read.push(2);
    expect(plan.run()).toBe(last + 1);
    device.wait();
    expect(first()).toEqual([0, 8, 8]);
    expect(pool.disposed).toBe(false);
    plan[Symbol.dispose]();
  });

  test("a plan with more index data than fit into one page", () => {
    const count = 6000;
    const pool = counting(device, "f32", [count, 1]);
    const order = Int32Array.from({ length: count }, (_, i) => (i + 1) % count);
    const identity = order.map((_, i) => i);
    using plan = device.plan((pass) => {
      for (let i = 0; i < 3; i++) pass.copySlots({ pool, readSlots: order, writeSlots: identity });
    });
    plan.run();
    device.wait();
    expect([pool.data[0], pool.data[count - 1]]).toEqual([3, 2]);
    order.reverse();
    plan.run();
    device.wait();
    expect([...pool.data].sort((a, b) => a - b)).toEqual([...identity]);
  });

  test("what a plan is given is checked strictly, once", () => {
    const x = counting(device, "f32", [1, 8]);
    const out = device.tensor("f32", [1, 8]);
    const weight = diagonal(device, "f32", 8);
    const good = { x, z: x, weight: device.tensor("f32", [8]), out };
    const misspelt = (extra: object) =>
      thrownBy(() => device.plan((pass) => pass.gatedRmsNorm({ ...good, ...extra } as never)));
    const error = misspelt({ epsilon: 1 });
    expect([error.code, error.op, error.argument]).toEqual(["invalid-argument", "gatedRmsNorm", "epsilon"]);
    expect(error.expected).toContain("eps");
    for (const [extra, argument] of [
      [{ eps: "1" }, "eps"],
      [{ eps: -1 }, "eps"],
      [{ eps: NaN }, "eps"],
      [{ activation: "relu" }, "activation"],
      [{ order: 1 }, "order"],
      [{ x: {} }, "x"],
      [{ x: undefined }, "x"],
    ] as const) {
      const error = misspelt(extra);
      expect([error.code, error.op, error.argument]).toEqual(["invalid-argument", "gatedRmsNorm", argument]);
    }
    expect(thrownBy(() => device.plan((pass) => pass.linear(undefined as never))).code).toBe("invalid-argument");
    expect(thrownBy(() => device.plan((pass) => pass.linear({ x, weight, out: x }))).code).toBe("overlap");
    expect(
      thrownBy(() => device.plan((pass) => pass.linear({ x, weight, out: device.tensor("f32", [2, 8]) }))).code,
    ).toBe("shape");
  });

  test("a refused plan leaves nothing behind", () => {
    const last = device.lastTicket;
    const boo = new Error("boo");
    let kept: Pass | undefined;
    expect(() =>
      device.plan((pass) => {
        kept = pass;
        pass.copySlots({ pool: counting(device, "f32", [2, 4]), readSlots: [0], writeSlots: [1] });
        throw boo;
      }),
    ).toThrow(boo);
    expect(thrownBy(() => kept!.copySlots({} as never)).code).toBe("state");
    expect(device.submit()).toBe(last);
  });

  test("a plan keeps its tensors", () => {
    const { plan, out } = (() => {
      const out = device.tensor("f32", [1, 8]);
      const plan = device.plan((pass) =>
        pass.linear({ x: counting(device, "f32", [1, 8]), weight: diagonal(device, "f32", 8, 2), out }),
      );
      return { plan, out };
    })();
    for (let i = 0; i < 10; i++) {
      Bun.gc(true);
      device.tensor("f32", [8, 8]).data.fill(NaN);
    }
    plan.run();
    device.wait();
    expect([...out.data]).toEqual([0, 2, 4, 6, 8, 10, 12, 14]);
    plan[Symbol.dispose]();
  });

  test("a plan over a tensor that was disposed refuses to run, and says which", () => {
    const x = counting(device, "f32", [2, 8]);
    const out = device.tensor("f32", [1, 8]);
    const row = x.slice(1);
    using plan = device.plan((pass) => pass.linear({ x: row, weight: diagonal(device, "f32", 8), out }));
    plan.run();
    device.wait();
    const before = [...out.data];
    row[Symbol.dispose]();
    const error = thrownBy(() => plan.run());
    expect(error).toBeInstanceOf(DisposedError);
    expect([error.op, error.argument]).toEqual(["linear", "x"]);
    x[Symbol.dispose]();
    expect(thrownBy(() => plan.run())).toBeInstanceOf(DisposedError);
    expect([...out.data]).toEqual(before);

    const slots = device.tensorFrom("i32", [1], [0]);
    const copying = device.plan((pass) => pass.copySlots({ pool: out, readSlots: slots, writeSlots: slots }));
    slots[Symbol.dispose]();
    expect(thrownBy(() => copying.run()).argument).toBe("readSlots");
    copying[Symbol.dispose]();
  });

  test("a disposed plan refuses to run; what is pending still runs", () => {
    const { op, check } = slowWork(device);
    whilePending(device, (times) => {
      const plan = device.plan((pass) => pass.encode(op));
      for (let i = 0; i < times; i++) plan.run();
      plan[Symbol.dispose]();
      plan[Symbol.dispose]();
      expect(plan.disposed).toBe(true);
      expect(thrownBy(() => plan.run())).toBeInstanceOf(DisposedError);
    });
    check();
  });

  test("wrapped memory stays reachable while a replay uses it", () => {
    const { weight, out } = slowWork(device);
    const alive = whilePending(device, (times) => {
      const held = (() => {
        const shared = new SharedArrayBuffer(out.bytes);
        new Float32Array(shared).fill(3);
        using x = device.wrap("f32", out.shape, shared);
        using plan = device.plan((pass) => pass.linear({ x, weight, out }));
        for (let i = 0; i < times; i++) plan.run();
        return new WeakRef(shared);
      })();
      for (let i = 0; i < 3; i++) Bun.gc(true);
      return held.deref() !== undefined;
    });
    expect(alive).toBe(true);
    expect(out.data.every((value) => value === 6)).toBe(true);
  });

  test("an array that replays the plan while it is read is told off", () => {
    const reading = new Proxy([0], {
      get(target, key) {
        if (key === "0" && armed) plan.run();
        return Reflect.get(target, key);
      },
    });
    let armed = false;
    const pool = counting(device, "f32", [2, 4]);
    const plan = device.plan((pass) => pass.encode(copySlots({ pool, readSlots: reading, writeSlots: [1] })));
    armed = true;
    expect(thrownBy(() => plan.run()).code).toBe("state");
    armed = false;
    plan.run();
    device.wait();
    expect(pool.data[4]).toBe(0);
    plan[Symbol.dispose]();
  });

  test("many plans come and go without growth", async () => {
    const pool = counting(device, "f32", [2, 4]);
    const cycle = () => {
      const slots = [0];
      using plan = device.plan((pass) => pass.copySlots({ pool, readSlots: slots, writeSlots: slots }));
      plan.run();
    };
    for (let i = 0; i < 200; i++) cycle();
    device.wait();
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    for (let i = 0; i < 3000; i++) cycle();
    device.wait();
    Bun.gc(true);
    const most = 24 * 2 ** 20; // a page of 16 KiB each would be 48 MiB
    expect(await fallen(() => process.memoryUsage.rss() - before, most)).toBeLessThan(most);
  });

  test("the constructor is not a way to make one", () => {
    expect(thrownBy(() => Reflect.construct(Plan, [{ device }, () => {}])).code).toBe("invalid-argument");
  });
});
