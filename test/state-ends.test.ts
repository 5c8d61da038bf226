/** How steps end where their caller did not end them well, and what is known of submissions then. */
import { expect, test } from "bun:test";
import { openDevice, thrownBy } from "./support/devices.ts";
import { statesOn } from "./support/states.ts";

test("a left step of a full pool, whose last state was written in place, loses every state that shared the slot", () => {
  using device = openDevice();
  const { newPool, run, advance } = statesOn(device);
  using pool = newPool(2);
  const a = pool.allocate();
  advance(pool, [a], [[1]]);
  const b = a.fork();
  expect(pool.free).toBe(0);
  {
    using step = pool.step([a, b]);
    run(step, [[2], [3]]);
    device.wait();
  }
  // Both are back in the slot that one of them has written.
  expect(a.slot).toBe(b.slot);
  expect([a.valid, b.valid]).toEqual([false, false]);
  expect(thrownBy(() => a.fork()).code).toBe("state");
});
