import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readlinkSync } from "node:fs";
import { native } from "../lib/device/device-handle.ts";
import { finishUpTo } from "../lib/device/device.ts";
import { Notifier } from "../lib/device/notifier.ts";
import type { Device } from "../lib/index.ts";
import * as nativeDevice from "../lib/native/device.ts";
import type { Task } from "./support/api-worker.ts";
import { isPending, openDevice, slowWork, testBackend } from "./support/devices.ts";

setDefaultTimeout(60_000);

/** Commits work that takes much longer than a short wait. */
function commitMuch(device: Device): () => void {
  const { op, check } = slowWork(device);
  for (let i = 0; i < 8; i++) device.run(op);
  return check;
}

/** Waits for long work often enough for the next wait to be expected to be long, too. */
async function waitOften(device: Device): Promise<void> {
  for (let i = 0; i < 2; i++) {
    commitMuch(device);
    await device.finish();
  }
}

const isLinux = process.platform === "linux";

function openSockets(): number {
  const folder = "/proc/self/fd";
  const isSocket = (name: string): boolean => {
    try {
      return readlinkSync(`${folder}/${name}`).startsWith("socket:");
    } catch {
      return false; // the descriptor that was used to read the folder
    }
  };
  return readdirSync(folder).filter(isSocket).length;
}

/** Waits until there are no more sockets than before, or too much time has passed. */
async function expectSockets(before: number): Promise<void> {
  for (let i = 0; i < 1000 && openSockets() > before; i++) {
    Bun.gc(true);
    await Bun.sleep(10);
  }
  expect(openSockets()).toBeLessThanOrEqual(before);
}

describe("waits for long work", () => {
  test("leave the event loop free", async () => {
    using device = openDevice();
    await waitOften(device);
    const check = commitMuch(device);
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    await device.finish();
    clearInterval(timer);
    check();
    expect(turns).toBeGreaterThan(0);
  });

  test("end each when its own submission has ended", async () => {
    using device = openDevice();
    await waitOften(device);
    const { op } = slowWork(device);
    const { status } = nativeDevice.describeDevice(device[native]);
    const ended: number[] = [];
    const tickets = Array.from({ length: 6 }, () => {
      device.run(op);
      return device.lastTicket;
    });
    const ends = tickets.toReversed().map(async (ticket) => {
      await device[finishUpTo](ticket);
      expect(Atomics.load(status, 0)).toBeGreaterThanOrEqual(ticket);
      ended.push(ticket);
    });
    await Promise.all(ends);
    expect(ended.toSorted((a, b) => a - b)).toEqual(tickets);
    expect(isPending(device)).toBe(false);
  });

  test("end when they are aborted, before the work does", async () => {
    using device = openDevice();
    await waitOften(device);
    let pending = false;
    // If this thread stands still for longer than the work takes, nothing is shown.
    for (let times = 1; times <= 32 && !pending; times *= 2) {
      for (let i = 0; i < times; i++) commitMuch(device);
      const controller = new AbortController();
      setTimeout(() => controller.abort(), 1);
      const error = await device.finish({ signal: controller.signal }).catch((reason: unknown) => reason);
      if (error !== undefined) expect((error as Error).name).toBe("AbortError");
      pending = isPending(device);
      await device.finish();
    }
    expect(pending).toBe(true);
  });

  test("end when the device is closed", async () => {
    const device = openDevice();
    await waitOften(device);
    commitMuch(device);
    const finished = device.finish();
    await Bun.sleep(1);
    device.close();
    await finished;
  });

  test("end although other code has closed the socket", async () => {
    using device = openDevice();
    const handle = device[native];
    const notifier = new Notifier();
    // The device is not asked to notify, so nothing comes.
    await notifier.wait(() => nativeDevice.makeNotifier(handle, "test"), () => true, Infinity, undefined);
    notifier.close();
  });

  test.if(isLinux)("leave no socket behind", async () => {
    const before = openSockets();
    for (let i = 0; i < 3; i++) {
      const device = openDevice();
      await waitOften(device);
      expect(openSockets()).toBeGreaterThan(before);
      device.close();
    }
    await expectSockets(before);
    await (async () => waitOften(openDevice()))(); // collected instead of closed
    await expectSockets(before);
  });

  test.if(isLinux)("leave none behind in Workers that end meanwhile", async () => {
    const before = openSockets();
    for (let round = 0; round < 4; round++) {
      const shared = new SharedArrayBuffer(4);
      const worker = new Worker(new URL("./support/api-worker.ts", import.meta.url).href);
      worker.postMessage({ kind: "slow", backend: testBackend, submissions: 24, shared } satisfies Task);
      while (Atomics.load(new Int32Array(shared), 0) === 0) await Bun.sleep(1);
      await Bun.sleep(5 * round);
      const closed = new Promise((resolve) => worker.addEventListener("close", resolve));
      worker.terminate();
      await closed;
    }
    await expectSockets(before);
  });

  test("keep the process alive", async () => {
    const program = `
      import { Device, linear } from ${JSON.stringify(new URL("../lib/index.ts", import.meta.url).pathname)};
      const device = Device.open("cpu");
      const x = device.tensor("f32", [2048, 1024]), weight = device.tensor("f32", [1024, 1024]), out = device.tensor("f32", [2048, 1024]);
      for (let i = 0; i < 3; i++) {
        for (let k = 0; k < 4; k++) device.run(linear({ x, weight, out }));
        device.finish().then(() => console.log("finished", device.lastTicket));
      }
    `;
    const { stdout, exitCode } = Bun.spawnSync([process.execPath, "-e", program]);
    expect(stdout.toString()).toBe("finished 12\n".repeat(3));
    expect(exitCode).toBe(0);
  });
});
