import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { DisposedError, GatedDeltaError, TimeoutError, linear } from "../lib/index.ts";
import { counting, diagonal, isPending, mostTimes, openDevice, slowWork, testBackend, thrownBy, whilePending } from "./support/devices.ts";

describe("waiting", () => {
  test("work runs without blocking the caller, and wait blocks until it is done", () => {
    using device = openDevice();
    const { op, check } = slowWork(device);
    const timeout = whilePending(device, (times) => {
      for (let i = 0; i < times; i++) device.run(op);
      // The error is counted only if the work was pending for even longer.
      try {
        return device.wait(0);
      } catch (error) {
        return error as GatedDeltaError;
      }
    });
    expect(timeout).toBeInstanceOf(TimeoutError);
    expect([timeout!.code, timeout!.op]).toEqual(["timeout", "device.wait"]);
    device.run(op);
    device.wait(60_000);
    expect(isPending(device)).toBe(false);
    check();
    device.wait();
    device.wait(Infinity);
  });

  test("finish leaves the event loop to others", async () => {
    using device = openDevice();
    const { op, check } = slowWork(device);
    let turns = 0;
    // If the work ended before the wait, others had no turn: then repeat with more work.
    for (let times = 1; turns <= 1 && times <= mostTimes; times *= 2) {
      turns = 0;
      for (let i = 0; i < times; i++) device.run(op);
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
    }
    expect(turns).toBeGreaterThan(1);
    check();
  });

  test("finish can be given up, and the work goes on", async () => {
    using device = openDevice();
    const { op, check } = slowWork(device);
    let late: GatedDeltaError | void = undefined;
    let aborted: Error | void = undefined;
    // If the work ended first, there was nothing to give up: then repeat with more work.
    for (let times = 1; times <= mostTimes && (late === undefined || aborted === undefined); times *= 2) {
      for (let i = 0; i < times; i++) device.run(op);
      late = await device.finish({ timeoutMs: 0 }).catch((error) => error);
      const controller = new AbortController();
      const finished = device.finish({ signal: controller.signal }).catch((error) => error);
      controller.abort();
      aborted = await finished;
      await device.finish({ signal: new AbortController().signal, timeoutMs: 60_000 });
      check();
    }
    expect(late).toBeInstanceOf(TimeoutError);
    expect([late!.op, aborted!.name]).toEqual(["device.finish", "AbortError"]);
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
      () => device.submit(),
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
