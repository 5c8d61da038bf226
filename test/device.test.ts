import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Device, DisposedError, GatedDeltaError, TimeoutError, copySlots, linear } from "../lib/index.ts";
import type { Op, Pass } from "../lib/index.ts";
import { counting, diagonal, isPending, openDevice, slowWork, testBackend, thrownBy } from "./support/devices.ts";

describe("opening", () => {
  test("a device says what it is", () => {
    for (const device of [Device.open(), Device.open("auto"), Device.open({}), openDevice()]) {
      expect(["cpu", "metal"]).toContain(device.backend);
      expect(device.name).not.toBe("");
      expect(device.threads).toBeGreaterThan(0);
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
    expect(device.commit()).toBe(last + 1);
    expect(device.commit()).toBe(last + 1);
    device.wait();
    copied(b, 4);
    device.encode(linear({ x, weight: twice, out: b }));
    device.discard();
    expect(device.commit()).toBe(last + 1);
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
    expect(device.commit()).toBe(last);
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
      () => device.commit(),
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

describe("waiting", () => {
  test("work runs without blocking the caller, and wait blocks until it is done", () => {
    using device = openDevice();
    const { op, check } = slowWork(device);
    device.run(op);
    expect(isPending(device)).toBe(true);
    const timeout = thrownBy(() => device.wait(0));
    expect(timeout).toBeInstanceOf(TimeoutError);
    expect([timeout.code, timeout.op]).toEqual(["timeout", "device.wait"]);
    device.wait(60_000);
    expect(isPending(device)).toBe(false);
    check();
    device.wait();
    device.wait(Infinity);
  });

  test("finish leaves the event loop to others", async () => {
    using device = openDevice();
    const { op, check } = slowWork(device);
    device.run(op);
    let turns = 0;
    let running = true;
    const others = (async () => {
      while (running) {
        turns++;
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await device.finish();
    running = false;
    await others;
    expect(turns).toBeGreaterThan(1);
    check();
  });

  test("finish can be given up, and the work goes on", async () => {
    using device = openDevice();
    const { op, check } = slowWork(device);
    device.run(op);
    const late = await device.finish({ timeoutMs: 0 }).catch((error) => error);
    expect(late).toBeInstanceOf(TimeoutError);
    expect(late.op).toBe("device.finish");
    const controller = new AbortController();
    const aborted = device.finish({ signal: controller.signal }).catch((error) => error);
    controller.abort();
    expect((await aborted).name).toBe("AbortError");
    await device.finish({ signal: new AbortController().signal, timeoutMs: 60_000 });
    check();
  });

  test("several can wait at once", async () => {
    using device = openDevice();
    const { op, check } = slowWork(device);
    device.run(op);
    await Promise.all([device.finish(), device.finish(), device.finish({ timeoutMs: 60_000 })]);
    check();
  });

  test("what is no time and no signal is refused", async () => {
    using device = openDevice();
    for (const time of [-1, NaN, "1", null, 1n]) {
      expect(thrownBy(() => device.wait(time as never)).argument).toBe("timeoutMs");
      expect((await device.finish({ timeoutMs: time as never }).catch((error) => error)).argument).toBe("timeoutMs");
    }
    for (const signal of [null, 1, {}, "x"]) {
      expect((await device.finish({ signal: signal as never }).catch((error) => error)).argument).toBe("signal");
    }
    for (const options of [null, 3]) {
      expect(await device.finish(options as never).catch((error) => error)).toBeInstanceOf(GatedDeltaError);
    }
  });

  test("a process that only waits for work stays alive for it", async () => {
    const script = `
      import { slowWork } from ${JSON.stringify(join(import.meta.dir, "support/devices.ts"))};
      import { Device } from ${JSON.stringify(join(import.meta.dir, "../lib/index.ts"))};
      const device = Device.open(${JSON.stringify(testBackend)});
      device.run(slowWork(device).op);
      device.finish().then(() => console.log("finished"));
    `;
    const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "pipe" });
    expect(await child.stdout.text()).toBe("finished\n");
    expect(await child.exited).toBe(0);
  });
});

describe("ending the process", () => {
  test.each([
    ["by itself", "", 0],
    ["by exit", "process.exit(3);", 3],
    ["by an error", "throw new Error();", 1],
    ["with tensors disposed", "work.x[Symbol.dispose](); work.out[Symbol.dispose]();", 0],
  ])("while work is pending harms nothing: %s", async (_, end, code) => {
    const script = `
      import { slowWork } from ${JSON.stringify(join(import.meta.dir, "support/devices.ts"))};
      import { Device } from ${JSON.stringify(join(import.meta.dir, "../lib/index.ts"))};
      const device = Device.open(${JSON.stringify(testBackend)});
      const work = slowWork(device);
      for (let i = 0; i < 3; i++) device.run(work.op);
      ${end}
    `;
    const child = Bun.spawn([process.execPath, "-e", script], { stdout: "ignore", stderr: "ignore" });
    expect(await child.exited).toBe(code);
    expect(child.signalCode).toBeNull();
  });
});

describe("closing", () => {
  test("close waits for pending work", () => {
    const device = openDevice();
    const { op, check } = slowWork(device);
    device.run(op);
    device.close();
    check();
  });

  test("a closed device refuses everything but closing", async () => {
    const device = openDevice();
    const x = counting(device, "f32", [1, 8]);
    const out = device.tensor("f32", [1, 8]);
    const op = linear({ x, weight: diagonal(device, "f32", 8), out });
    const plan = device.plan((pass) => pass.encode(op));
    device.close();
    device.close();
    device[Symbol.dispose]();
    expect([device.closed, plan.disposed]).toEqual([true, true]);
    const uses: (() => unknown)[] = [
      () => device.tensor("f32", [1]),
      () => device.tensorFrom("f32", [1], [1]),
      () => device.wrap("f32", [1], new SharedArrayBuffer(64)),
      () => device.unsafeWrap("f32", [1], new ArrayBuffer(64)),
      () => device.run(op),
      () => device.encode(op),
      () => device.commit(),
      () => device.discard(),
      () => device.wait(),
      () => device.plan(() => {}),
      () => plan.run(),
    ];
    for (const use of uses) expect(thrownBy(use)).toBeInstanceOf(DisposedError);
    expect(await device.finish().catch((error) => error)).toBeInstanceOf(DisposedError);
    plan[Symbol.dispose]();
  });

  test("someone who waits while the device is closed is told that the work is done", async () => {
    const device = openDevice();
    const { op, check } = slowWork(device);
    device.run(op);
    const finished = device.finish();
    device.close();
    await finished;
    check();
  });

  test("a tensor of another device is refused", () => {
    using device = openDevice();
    using other = openDevice();
    const op = linear({
      x: counting(device, "f32", [1, 8]),
      weight: diagonal(other, "f32", 8),
      out: device.tensor("f32", [1, 8]),
    });
    for (const runner of [device, other]) {
      const error = thrownBy(() => runner.run(op));
      expect([error.code, error.op, error.argument]).toEqual([
        "invalid-argument",
        "linear",
        runner === device ? "weight" : "x",
      ]);
    }
  });
});
