import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { linear } from "../lib/index.ts";
import { native } from "../lib/device/device-handle.ts";
import { constants } from "../lib/native/layout.ts";
import type { Task } from "./support/api-worker.ts";
import { counting, diagonal, isPending, openDevice, slowWork, testBackend } from "./support/devices.ts";

function startWorker(): Worker {
  return new Worker(new URL("./support/api-worker.ts", import.meta.url).href);
}

/** Gives a new Worker a task and returns its answer. */
async function ask(task: Task): Promise<unknown> {
  const worker = startWorker();
  try {
    return await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(message));
      worker.postMessage(task);
    });
  } finally {
    worker.terminate();
  }
}

const backend = testBackend;

setDefaultTimeout(60_000); // Workers start slowly on a busy machine

describe("Workers", () => {
  test("several Workers use devices of their own at the same time as the main thread's", async () => {
    using device = openDevice();
    const answers = Array.from({ length: 4 }, (_, i) => ask({ kind: "compute", backend, seed: i, rounds: 20 }));
    const { op, check } = slowWork(device);
    device.run(op);
    for (const [seed, answer] of (await Promise.all(answers)).entries()) {
      expect(answer).toEqual(Array.from({ length: 8 }, (_, i) => (seed + i) * 2 ** 20));
    }
    await device.finish();
    check();
  });

  test("ending a Worker while its work runs does not affect others", async () => {
    using device = openDevice();
    for (let round = 0; round < 4; round++) {
      const shared = new SharedArrayBuffer(4);
      const worker = startWorker();
      worker.postMessage({ kind: "slow", backend, submissions: 3, shared } satisfies Task);
      const flag = new Int32Array(shared);
      while (Atomics.load(flag, 0) === 0) await Bun.sleep(1);
      const closed = new Promise((resolve) => worker.addEventListener("close", resolve));
      worker.terminate();
      await closed;
      // The memory of the ended Worker's tensors may be handed out here while its work still runs.
      const { op, check } = slowWork(device);
      device.run(op);
      await device.finish();
      check();
    }
  });

  test("what an ended Worker had is freed", async () => {
    const run = async () => {
      const shared = new SharedArrayBuffer(4);
      const worker = startWorker();
      worker.postMessage({ kind: "slow", backend, submissions: 1, shared } satisfies Task);
      const flag = new Int32Array(shared);
      while (Atomics.load(flag, 0) === 0) await Bun.sleep(1);
      const closed = new Promise((resolve) => worker.addEventListener("close", resolve));
      worker.terminate();
      await closed;
    };
    for (let i = 0; i < 3; i++) await run();
    const before = process.memoryUsage.rss();
    for (let i = 0; i < 12; i++) await run();
    // Each has 10 MiB of tensors, freed when its work is done: soon, or not so soon on a busy machine.
    const growth = () => (process.memoryUsage.rss() - before) / 2 ** 20;
    for (let round = 0; round < 1000 && growth() >= 60; round++) await Bun.sleep(10);
    expect(growth()).toBeLessThan(60);
  });

  test("a device is of no use to another thread", async () => {
    using device = openDevice();
    const { GD_ERROR_STATE } = constants;
    expect(await ask({ kind: "foreign", device: device[native] })).toEqual(Array(4).fill(GD_ERROR_STATE));
    const x = counting(device, "f32", [1, 8]);
    const out = device.tensor("f32", [1, 8]);
    device.run(linear({ x, weight: diagonal(device, "f32", 8), out }));
    device.wait();
    expect([...out.data]).toEqual([...x.data]);
  });

  test("Workers share memory that is wrapped on both sides", async () => {
    using device = openDevice();
    const shared = new SharedArrayBuffer(16 * 1024 * 4);
    using x = device.wrap("f32", [16, 1024], shared);
    x.data.fill(3);
    expect(await ask({ kind: "double", backend, shared })).toBe("doubled");
    expect(x.data.every((value) => value === 6)).toBe(true);
    const out = device.tensor("f32", [16, 1024]);
    device.run(linear({ x, weight: diagonal(device, "f32", 1024), out }));
    device.wait();
    expect(out.data.every((value) => value === 6)).toBe(true);
  });

  test("elements go to another Worker by copy, or with the memory and the tensor's end", async () => {
    using device = openDevice();
    const { port1, port2 } = new MessageChannel();
    const received: Float32Array[] = [];
    const arrived = new Promise<void>((resolve) => {
      port2.onmessage = ({ data }) => {
        received.push(data as Float32Array);
        if (received.length === 2) resolve();
      };
    });
    const t = counting(device, "f32", [4]);
    port1.postMessage(t.data);
    t.data[0] = 9;
    expect(t.disposed).toBe(false);
    const { data } = t;
    port1.postMessage(data, [data.buffer as ArrayBuffer]);
    expect([t.disposed, data.length]).toEqual([true, 0]);
    await arrived;
    expect(received.map((array) => [...array])).toEqual([
      [0, 1, 2, 3],
      [9, 1, 2, 3],
    ]);
    port1.close();
    expect(isPending(device)).toBe(false);
  });
});
