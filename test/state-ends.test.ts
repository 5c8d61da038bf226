/** Steps that their caller did not end properly, and their submissions. */
import { expect, test } from "bun:test";
import { causalConv1d } from "../lib/index.ts";
import type { GatedDeltaError, PoolStep } from "../lib/index.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { failAt } from "./support/faults.ts";
import { channels, sizes, statesOn } from "./support/states.ts";

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
  // Both are back in the slot that one of them overwrote.
  expect(a.slot).toBe(b.slot);
  expect([a.valid, b.valid]).toEqual([false, false]);
  expect(thrownBy(() => a.fork()).code).toBe("state");
});

test("pool.run ends its step itself: its callback can neither finish nor abort it", () => {
  using device = openDevice();
  const { newPool, run, fromScratch, contentOf } = statesOn(device);
  using pool = newPool(2);
  const state = pool.allocate();
  const errors: GatedDeltaError[] = [];
  pool.run([state], (step: PoolStep) => {
    run(step, [[1]]);
    errors.push(thrownBy(() => step.done()), thrownBy(() => step.abort()));
    return [];
  });
  expect(errors.map(({ code, op }) => [code, op])).toEqual([["state", "step.done"], ["state", "step.abort"]]);
  device.wait();
  expect(contentOf(pool, state)).toEqual(fromScratch([1]));
});

test("a pass over no states is no work, and has no part in an earlier submission's failure", () => {
  using device = openDevice();
  const { newPool, run } = statesOn(device);
  using pool = newPool(1);
  const state = pool.allocate();
  failAt(device, "run");
  const failing = pool.step([state]);
  run(failing, [[1]]);
  failing.done();
  expect(thrownBy(() => device.wait()).code).toBe("device");
  const draft = pool.draft([], []);
  const ticket = device.lastTicket;
  const weight = device.tensor("f32", [channels, sizes.convWidth]);
  const verify = () => causalConv1d({ x: draft.convInput(0), weight, out: device.tensor("f32", [0, channels]), states: draft.layer(0) });
  expect(draft.run(() => [verify()])).toBe(ticket);
  draft.commit([]);
  device.wait();
});

test("a freed handle of a step, whose slot another state has taken, is not one of those that share it", () => {
  using device = openDevice();
  const { newPool, advance } = statesOn(device);
  using pool = newPool(2);
  const freed = pool.allocate();
  freed.free();
  const a = pool.allocate();
  advance(pool, [a], [[1]]);
  using open = pool.step([a.fork()]);
  // Nothing is free, and the open step reads a's slot, so it is `a` that is refused.
  expect(thrownBy(() => pool.step([a, freed])).code).toBe("state");
  expect(open.open).toBe(true);
});

test("ops of a step whose handles were collected can't be committed: its slots are other states' by then", async () => {
  using device = openDevice();
  const { newPool } = statesOn(device);
  using pool = newPool(32);
  const weight = device.tensor("f32", [channels, sizes.convWidth]);
  const x = device.tensor("f32", [1, channels]);
  const litter = () => {
    for (let i = 0; i < 32; i++) device.encode(causalConv1d({ x, weight, out: device.tensor("f32", [1, channels]), states: pool.step([pool.allocate()]).layer(0) }));
  };
  litter();
  for (let i = 0; i < 100 && pool.free < 16; i++) {
    Bun.gc(true);
    await Bun.sleep(5);
  }
  expect(pool.free).toBeGreaterThanOrEqual(16); // the engine may still see a few
  expect(thrownBy(() => device.submit()).code).toBe("state");
  device.discard();
  device.submit();
});
