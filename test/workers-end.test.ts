/** Work whose Worker ends or whose device is garbage-collected. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { linear } from "../lib/index.ts";
import { constants } from "../lib/native/layout.ts";
import { library } from "../lib/native/library.ts";
import { native } from "../lib/device/device-handle.ts";
import { counting, diagonal, openDevice, testBackend } from "./support/devices.ts";
import { longOp, rowsFor, rowsWritten } from "./support/long-work.ts";
import { device as rawDevice, isReleased, lastError } from "./support/raw-ops.ts";
import { startBusy } from "./support/busy-worker.ts";

setDefaultTimeout(300_000); // Workers start slowly on a busy machine

/** An emulated GPU runs all committed work, as a real one does; the CPU stops between two work items. */
const stops = openDevice().backend === "cpu";
const ends = ["exit", "terminate"] as const;

/** Approximate duration of the work at first, in milliseconds. If it ends before the check, the next attempt has more. */
const shortest = stops ? 1000 : 500;
const longest = 32_000;

/** A Worker that has ended, its work's last output, and how many rows of that were written at its end. */
async function endWorker(end: (typeof ends)[number], wrapped: boolean, submissions: number, milliseconds = shortest) {
  const order = { backend: testBackend, wrapped, submissions, milliseconds, exits: end === "exit" };
  const { worker, busy, closed } = await startBusy(order);
  if (end === "terminate") worker.terminate();
  await closed;
  const data = new Float32Array(busy.out, 0, busy.rows * 16);
  return { ...busy, data, written: rowsWritten(data) };
}

/** The same for a Worker that has ended before its work. */
async function endBusyWorker(end: (typeof ends)[number], wrapped: boolean, submissions: number) {
  for (let milliseconds = shortest; milliseconds <= longest; milliseconds *= 2) {
    const ended = await endWorker(end, wrapped, submissions, milliseconds);
    if (ended.written < ended.rows) return ended;
  }
  throw new Error("a Worker never ends before its work");
}

/** Waits until a number of rows is written, or until a time limit. */
async function untilWritten(out: Float32Array, rows: number, most = 60_000): Promise<number> {
  const end = performance.now() + most;
  while (rowsWritten(out) < rows && performance.now() < end) await Bun.sleep(20);
  return rowsWritten(out);
}

describe("memory of a Worker that has ended", () => {
  // Each process is a throw of the dice: without the stop, about one in four shows a change.
  test("is not touched any more: 16 short processes, both ways of ending", async () => {
    const script = join(import.meta.dir, "support/ended-worker.ts");
    const results: string[] = [];
    let left = 16;
    const runOne = async () => {
      while (left > 0) {
        const number = left--;
        const args = [process.execPath, script, testBackend, ends[number % 2]!];
        const child = Bun.spawn(args, { stdout: "pipe", stderr: "pipe" });
        const [out, error] = await Promise.all([child.stdout.text(), child.stderr.text()]);
        results.push(`${out}${error}`);
      }
    };
    await Promise.all([runOne(), runOne(), runOne()]);
    expect(results.filter((result) => result !== "0 changed\n")).toEqual([]);
    expect(results.length).toBe(16);
  });
});

for (const end of ends) {
  for (const submissions of [1, 400]) {
    describe(`a Worker with work in ${submissions} submissions, ended by ${end}`, () => {
      test("work on its own memory ends with it", async () => {
        const { data, written } = stops ? await endBusyWorker(end, true, submissions) : await endWorker(end, true, submissions);
        await Bun.sleep(100);
        expect(rowsWritten(data)).toBe(written);
      });

      test("work on the library's memory continues, and nothing waits for it", async () => {
        const { data, rows } = await endBusyWorker(end, false, submissions);
        expect(await untilWritten(data, rows)).toBe(rows);
      });
    });
  }
}

test("handles of memory that an ended Worker has wrapped are released; its tensors' may live on elsewhere", async () => {
  const refusalOf = ({ handle }: { handle: number }) => {
    expect(isReleased(rawDevice, handle)).toBe(true); // or belongs to another device
    return lastError(4);
  };
  expect(refusalOf(await endWorker("terminate", true, 1))).toBe("one that was released");
  expect(refusalOf(await endWorker("terminate", false, 1))).toBe("one of another device");
});

describe("a device that is collected", () => {
  const base = rowsFor(openDevice(), shortest);
  const isOpen = (handle: number) =>
    library().gd_device_describe(handle as never, null) !== constants.GD_ERROR_HANDLE;

  /** Leaves a device to the collector while a long op of this many rows is pending; returns the op's output once the device is gone. */
  async function collected(wrapped: boolean, rows: number): Promise<Float32Array> {
    const leave = () => {
      const device = openDevice();
      const { op, out } = longOp(device, wrapped, rows);
      device.run(op);
      return { handle: device[native] as number, data: out.data as Float32Array };
    };
    // The engine may see a device on its stack: then another one is left.
    for (let attempt = 0; attempt < 20; attempt++) {
      const { handle, data } = leave();
      for (let i = 0; i < 5 && isOpen(handle); i++) {
        Bun.gc(true);
        await Bun.sleep(5);
      }
      if (!isOpen(handle)) return data;
    }
    throw new Error("no device was collected");
  }

  /** The same, but before the op's end. */
  async function collectedWhileBusy(wrapped: boolean) {
    for (let rows = base; rows * shortest <= base * longest; rows *= 2) {
      const data = await collected(wrapped, rows);
      const written = rowsWritten(data);
      if (written < rows) return { data, written, rows };
    }
    throw new Error("no device is collected before the end of its work");
  }

  test("does not hold up the program, and its work on the library's memory goes on", async () => {
    const { data, rows } = await collectedWhileBusy(false);
    expect(await untilWritten(data, rows)).toBe(rows);
  });

  test("touches memory of the caller's no more", async () => {
    const data = stops ? (await collectedWhileBusy(true)).data : await collected(true, base);
    const written = rowsWritten(data);
    await Bun.sleep(100);
    expect(rowsWritten(data)).toBe(written);
  });

  test("is not, while its work is awaited", async () => {
    const rows = Math.ceil(base / 2);
    const { finished, data } = (() => {
      const device = openDevice();
      const { op, out } = longOp(device, true, rows);
      device.run(op);
      return { finished: device.finish(), data: out.data as Float32Array };
    })();
    const collecting = setInterval(() => Bun.gc(true), 10);
    await finished;
    clearInterval(collecting);
    expect(rowsWritten(data)).toBe(rows);
  });
});

test("closing waits for the work, whatever memory it touches", () => {
  for (const wrapped of [false, true]) {
    const device = openDevice();
    const rows = rowsFor(device, 50);
    const { op, out } = longOp(device, wrapped, rows);
    const { data } = out;
    device.run(op);
    device.close();
    expect(rowsWritten(data as Float32Array)).toBe(rows);
  }
});

test("a device that opens as another one closes has its own status", async () => {
  const x = (device: ReturnType<typeof openDevice>) => counting(device, "f32", [1, 8]);
  for (let round = 0; round < 50; round++) {
    const first = openDevice();
    const op = linear({ x: x(first), weight: diagonal(first, "f32", 8), out: first.tensor("f32", [1, 8]) });
    for (let i = 0; i < 5; i++) first.run(op);
    const finished = first.finish();
    first.close();
    using second = openDevice();
    const out = second.tensor("f32", [1, 8]);
    second.run(linear({ x: x(second), weight: diagonal(second, "f32", 8), out }));
    await second.finish();
    expect(out.data[7]).toBe(7);
    await finished;
  }
});
