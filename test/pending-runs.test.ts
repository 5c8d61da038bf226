/** Waiting for committed work. */
import { expect, test } from "bun:test";
import type { Device } from "../lib/index.ts";
import { PendingRuns } from "../lib/model/pending-runs.ts";

/** A device whose work ends when it is told to. */
function slowDevice(): { readonly device: Device; readonly end: () => void } {
  const waiting: (() => void)[] = [];
  const finish = () => new Promise<void>((resolve) => waiting.push(resolve));
  return { device: { finish } as unknown as Device, end: () => waiting.splice(0).forEach((resolve) => resolve()) };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test("all that wait for work of no run wait until it is over", async () => {
  const { device, end } = slowDevice();
  const pending = new PendingRuns(device);
  pending.follow();
  let over = 0;
  const all = [1, 2, 3].map(async () => {
    await pending.over();
    over++;
  });
  await turn();
  expect(over).toBe(0);
  end();
  await Promise.all(all);
  expect(over).toBe(3);
});

test("a run after work of no run ends after it, and what waits for both ends last", async () => {
  const { device, end } = slowDevice();
  const pending = new PendingRuns(device);
  pending.follow();
  const order: string[] = [];
  const note = (what: string) => () => void order.push(what);
  const waits = [pending.over().then(note("work")), pending.wait([]).then(note("run"))];
  const both = pending.over().then(note("both"));
  await turn();
  expect(order).toEqual([]);
  end();
  await turn();
  expect(order).toEqual(["work"]);
  end();
  await Promise.all([...waits, both]);
  expect(order[0]).toBe("work");
  expect(order.toSorted()).toEqual(["both", "run", "work"]);
});
