import { describe, expect, test } from "bun:test";
import { Device, copySlots, linear } from "../lib/index.ts";
import type { Op, Pass } from "../lib/index.ts";
import { counting, diagonal, openDevice, thrownBy } from "./support/devices.ts";

describe("opening", () => {
  test("a device says what it is", () => {
    for (const device of [Device.open(), Device.open("auto"), Device.open({}), openDevice()]) {
      expect(["cpu", "metal"]).toContain(device.backend);
      expect(device.name).not.toBe("");
      // Only the CPU backend has threads.
      if (device.backend === "cpu") expect(device.threads).toBeGreaterThan(0);
      else expect(device.threads).toBe(0);
      expect([device.closed, device.lastTicket]).toEqual([false, 0]);
      if (device.backend === "cpu") expect(device.isa).not.toBe("");
      if (device.backend === "cpu") expect(device.emulated).toBe(false);
      device.close();
    }
    using device = Device.open({ backend: "cpu", threads: 1 });
    expect([device.backend, device.threads]).toEqual(["cpu", 1]);
  });

  test("options that are none are refused by name", () => {
    const bad: [unknown, string][] = [
      [{ backend: "gpu" }, "backend"],
      [{ backend: 1 }, "backend"],
      ["gpu", "backend"],
      ["toString", "backend"],
      [{ threads: -1 }, "threads"],
      [{ threads: 1.5 }, "threads"],
      [{ threads: "2" }, "threads"],
      [{ threads: NaN }, "threads"],
      [{ threads: 1025 }, "threads"],
      [{ thread: 1 }, "thread"],
    ];
    for (const [options, argument] of bad) {
      const error = thrownBy(() => Device.open(options as never));
      expect([error.code, error.op, error.argument]).toEqual(["invalid-argument", "Device.open", argument]);
      expect(error.expected).toBeTruthy();
      expect(error.received).toBeTruthy();
    }
    for (const options of [null, 3, true, [], () => {}, Symbol("x")]) {
      expect(thrownBy(() => Device.open(options as never)).code).toBe("invalid-argument");
    }
    const hostile = {
      get backend(): never {
        throw new Error("boo");
      },
    };
    expect(thrownBy(() => Device.open(hostile)).cause).toEqual(new Error("boo"));
  });

  test("many devices can be open and closed in any order", () => {
    const devices = Array.from({ length: 20 }, () => openDevice(1));
    const work = devices.map((device) => {
      const x = counting(device, "f32", [1, 8]);
      const out = device.tensor("f32", [1, 8]);
      device.run(linear({ x, weight: diagonal(device, "f32", 8, 2), out }));
      return out;
    });
    for (const [i, device] of devices.entries()) if (i % 2) device.close();
    for (const device of devices.reverse()) device.close();
    for (const out of work) expect([...out.data]).toEqual([0, 2, 4, 6, 8, 10, 12, 14]);
  });
});

describe("running", () => {
  const device = openDevice();
  const x = counting(device, "f32", [2, 8]);
  const twice = diagonal(device, "f32", 8, 2);
  const fresh = () => device.tensor("f32", [2, 8]);
  const copied = (out: { data: Float32Array }, factor: number) =>
    expect([...out.data]).toEqual(Array.from({ length: 16 }, (_, i) => factor * i));

  test("run takes ops or a function, and returns tickets in order", () => {
    const [a, b, c] = [fresh(), fresh(), fresh()];
    const first = device.run(linear({ x, weight: twice, out: a }), linear({ x: a, weight: twice, out: b }));
    const second = device.run((pass) => {
      pass.linear({ x: b, weight: twice, out: c });
      pass.encode(linear({ x: c, weight: twice, out: a }));
    });
    expect(second).toBe(first + 1);
    expect(device.lastTicket).toBe(second);
    device.wait();
    copied(a, 16);
    copied(b, 4);
    copied(c, 8);
  });

  test("an op can be run again and again", () => {
    const [a, b] = [fresh(), fresh()];
    a.copyFrom(x);
    const [there, back] = [linear({ x: a, weight: twice, out: b }), linear({ x: b, weight: twice, out: a })];
    for (let i = 0; i < 3; i++) device.run(there, back);
    device.wait();
    copied(a, 64);
    expect(there.name).toBe("linear");
  });

  test("encode and commit are the halves of run", () => {
    const [a, b] = [fresh(), fresh()];
    const last = device.lastTicket;
    device.encode(linear({ x, weight: twice, out: a }));
    expect(thrownBy(() => device.encode({} as Op)).code).toBe("invalid-argument");
    device.encode(linear({ x: a, weight: twice, out: b }));
    device.wait();
    copied(b, 0); // nothing was committed
    expect(device.submit()).toBe(last + 1);
    expect(device.submit()).toBe(last + 1);
    device.wait();
    copied(b, 4);
    device.encode(linear({ x, weight: twice, out: b }));
    device.discard();
    expect(device.submit()).toBe(last + 1);
  });

  test("a refused op leaves nothing of its pass to run", () => {
    const [a, pool] = [fresh(), device.tensor("f32", [2, 8])];
    const refused = copySlots({ pool, readSlots: [0], writeSlots: [7] });
    const last = device.lastTicket;
    expect(thrownBy(() => device.run(linear({ x, weight: twice, out: a }), refused)).code).toBe("range");
    expect(
      thrownBy(() =>
        device.run((pass) => {
          pass.linear({ x, weight: twice, out: a });
          pass.encode(refused);
        }),
      ).code,
    ).toBe("range");
    expect(
      thrownBy(() =>
        device.run((pass) => {
          pass.linear({ x, weight: twice, out: a });
          pass.linear({ x } as never);
        }),
      ).code,
    ).toBe("invalid-argument");
    const boo = new Error("boo");
    expect(() =>
      device.run((pass) => {
        pass.linear({ x, weight: twice, out: a });
        throw boo;
      }),
    ).toThrow(boo);
    expect(device.submit()).toBe(last);
    device.wait();
    copied(a, 0);
  });

  test("what is neither ops nor a function is refused", () => {
    for (const work of [undefined, null, 3, {}, [], "linear", Promise.resolve()]) {
      expect(thrownBy(() => device.run(work as never)).code).toBe("invalid-argument");
    }
    expect(thrownBy(() => device.run(...([() => {}, () => {}] as never[]))).code).toBe("invalid-argument");
    expect(thrownBy(() => device.plan(3 as never)).code).toBe("invalid-argument");
    const last = device.lastTicket;
    expect(device.run()).toBe(last);
    expect(device.run(() => {})).toBe(last);
  });

  test("a pass is recorded at once, and is over then", async () => {
    let kept: Pass | undefined;
    device.run((pass) => void (kept = pass));
    expect(thrownBy(() => kept!.linear({ x, weight: twice, out: fresh() })).code).toBe("state");
    const error = thrownBy(() =>
      device.run((async (pass: Pass) => {
        await 0;
        pass.linear({ x, weight: twice, out: fresh() });
      }) as never),
    );
    expect([error.code, error.received]).toEqual(["invalid-argument", "one that returns a promise"]);
    await Bun.sleep(1); // the rejection of that function's promise is not left unhandled
  });

  test("a device that is being recorded on does nothing else", () => {
    const plan = device.plan(() => {});
    const attempts: (() => unknown)[] = [
      () => device.run(),
      () => device.encode(linear({ x, weight: twice, out: fresh() })),
      () => device.submit(),
      () => device.discard(),
      () => device.wait(),
      () => device.close(),
      () => device.plan(() => {}),
      () => plan.run(),
    ];
    for (const attempt of attempts) {
      device.run(() => expect(thrownBy(attempt).code).toBe("state"));
    }
    expect(device.closed).toBe(false);
    plan[Symbol.dispose]();
  });

  test("callers' objects that call back while they are read do no harm", () => {
    const [a, b] = [fresh(), fresh()];
    const op = linear({
      x,
      weight: twice,
      get out() {
        device.run(linear({ x, weight: twice, out: b }));
        return a;
      },
    });
    device.run(op);
    device.wait();
    copied(a, 2);
    copied(b, 2);
    const pool = counting(device, "f32", [2, 8]);
    const calling = new Proxy([1, 0], {
      get(target, key) {
        if (key === "1") device.run(copySlots({ pool, readSlots: [1, 1], writeSlots: [0, -1] }));
        return Reflect.get(target, key);
      },
    });
    expect(thrownBy(() => device.run(copySlots({ pool, readSlots: [0, 1], writeSlots: calling }))).code).toBe("state");
    device.wait();
    expect([...pool.data]).toEqual(Array.from({ length: 16 }, (_, i) => i));
  });
});
