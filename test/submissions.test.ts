import { describe, expect, test } from "bun:test";
import { DeviceError, TimeoutError } from "../lib/index.ts";
import { Pins } from "../lib/tensor/pins.ts";
import { Submissions } from "../lib/device/submissions.ts";
import { thrownBy } from "./support/devices.ts";

/** The native functions of a device that can't notify, because the system has no more sockets. */
const withoutSockets = {
  makeNotifier(op: string): number {
    throw new DeviceError({ op, message: "no socket" });
  },
  notify: (): boolean => true,
};

/** A device whose submissions finish and fail when told to. */
class FakeDevice {
  readonly status = new Int32Array(2);
  readonly failures = new Map<number, Error>();
  readonly pins = new Pins();
  readonly submissions: Submissions;

  constructor(finished = 0) {
    this.status[0] = finished;
    this.submissions = new Submissions(
      {
        device: this,
        status: this.status,
        failureOf: (ticket) => this.failures.get(ticket),
        waitFor: (ticket, timeoutMs) => {
          if (timeoutMs !== undefined) return "timeout";
          while (((this.status[0]! - ticket) | 0) < 0) this.finish();
          return this.failures.get(ticket);
        },
        ...withoutSockets,
      },
      this.pins,
    );
  }

  /** Finishes the next submission, with a failure or without. */
  finish(failedTicket?: number): void {
    if (failedTicket !== undefined) {
      this.failures.set(
        failedTicket,
        new DeviceError({ op: "gatedDelta", message: `submission ${failedTicket} failed` }),
      );
      this.status[1]!++;
    }
    this.status[0]!++;
  }

  commit(...tickets: number[]): void {
    for (const ticket of tickets) this.submissions.committed(ticket);
  }
}

describe("submissions", () => {
  test("nothing committed is nothing to wait for", async () => {
    const { submissions } = new FakeDevice();
    submissions.wait("wait", 0);
    await submissions.finish("finish", undefined, 0);
    expect(submissions.last).toBe(0);
  });

  test("each failure is reported once, in order, by the next wait", async () => {
    const device = new FakeDevice();
    device.commit(1, 2, 3, 4);
    device.finish();
    device.finish(2);
    device.finish(3);
    device.finish();
    expect(thrownBy(() => device.submissions.wait("wait", undefined)).message).toBe("gatedDelta: submission 2 failed");
    expect(await device.submissions.finish("finish", undefined, undefined).catch((error) => error.message)).toBe(
      "gatedDelta: submission 3 failed",
    );
    device.submissions.wait("wait", undefined);
    await device.submissions.finish("finish", undefined, undefined);
    device.commit(5);
    device.finish(5);
    expect(thrownBy(() => device.submissions.wait("wait", undefined)).message).toContain("submission 5");
    device.submissions.wait("wait", undefined);
  });

  test("a failure of the waiting itself is thrown", () => {
    const status = new Int32Array(2);
    const failure = new DeviceError({ op: "wait", message: "another thread's device" });
    const submissions = new Submissions({ device: {}, status, failureOf: () => undefined, waitFor: () => failure, ...withoutSockets }, new Pins());
    submissions.committed(1);
    expect(thrownBy(() => submissions.wait("wait", undefined))).toBe(failure);
  });

  test("time that is over is an error, and the work goes on", async () => {
    const device = new FakeDevice();
    device.commit(1);
    expect(thrownBy(() => device.submissions.wait("wait", 5))).toBeInstanceOf(TimeoutError);
    expect(await device.submissions.finish("finish", undefined, 3).catch((error) => error)).toBeInstanceOf(
      TimeoutError,
    );
    device.finish();
    await device.submissions.finish("finish", undefined, 3);
  });

  test("finish resolves when the work is done, in turns of the event loop or after sleeps", async () => {
    for (const delay of [0, 5]) {
      const device = new FakeDevice();
      device.commit(1);
      let done = false;
      const finished = device.submissions.finish("finish", undefined, undefined).then(() => (done = true));
      await Promise.resolve();
      expect(done).toBe(false);
      setTimeout(() => device.finish(), delay);
      await finished;
    }
  });

  test("finish is about what is committed when it is called", async () => {
    const device = new FakeDevice();
    device.commit(1);
    const finished = device.submissions.finish("finish", undefined, undefined);
    device.commit(2);
    device.finish();
    await finished;
    expect(thrownBy(() => device.submissions.wait("wait", 0))).toBeInstanceOf(TimeoutError);
  });

  test("an aborted signal rejects with its reason", async () => {
    const device = new FakeDevice();
    device.commit(1);
    const reason = new Error("enough");
    expect(
      await device.submissions.finish("finish", AbortSignal.abort(reason), undefined).catch((error) => error),
    ).toBe(reason);
    const controller = new AbortController();
    const finished = device.submissions.finish("finish", controller.signal, undefined).catch((error) => error);
    setTimeout(() => controller.abort(), 3);
    expect((await finished).name).toBe("AbortError");
  });

  test("the count of finished submissions may wrap", () => {
    const device = new FakeDevice(-1); // 2^32 - 1 finished
    device.commit(2 ** 32 - 1);
    device.submissions.wait("wait", 0);
    device.commit(2 ** 32);
    expect(thrownBy(() => device.submissions.wait("wait", 0))).toBeInstanceOf(TimeoutError);
    device.finish();
    device.submissions.wait("wait", 0);
  });
});

describe("pins", () => {
  test("owners are kept from their encoding until their submission is done", () => {
    const pins = new Pins();
    const make = () => {
      const owner = { memory: new ArrayBuffer(8) };
      pins.add(owner);
      return new WeakRef(owner);
    };
    const committed = make();
    pins.commit(2, [{ also: "this" }]);
    const encoded = make();
    pins.release((ticket) => ticket <= 1);
    for (let i = 0; i < 3; i++) Bun.gc(true);
    expect([committed, encoded].map((ref) => ref.deref() !== undefined)).toEqual([true, true]);
  });

  test("owners are let go when their submission is done, or dropped", async () => {
    const pins = new Pins();
    const refs: WeakRef<object>[] = [];
    for (let i = 0; i < 100; i++) {
      for (const end of [() => pins.commit(i), () => pins.discard()]) {
        const owner = { memory: new ArrayBuffer(8) };
        refs.push(new WeakRef(owner));
        pins.add(owner);
        end();
      }
    }
    pins.release(() => true);
    const left = (): number => refs.filter((ref) => ref.deref() !== undefined).length;
    for (let turn = 0; turn < 100 && left() >= 20; turn++) {
      await Bun.sleep(1); // a WeakRef holds its target until the turn that looked at it is over
      Bun.gc(true);
    }
    // The engine may still see a few on its stack.
    expect(left()).toBeLessThan(20);
  });
});
