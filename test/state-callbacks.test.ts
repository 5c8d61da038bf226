/** Code of the caller that runs while index data is read, as getters and proxies do. */
import { afterAll, expect, test } from "bun:test";
import { StatePool, gatedDelta } from "../lib/index.ts";
import type { Indices, LayerStates } from "../lib/index.ts";
import { openDevice, thrownBy } from "./support/devices.ts";

const device = openDevice();
afterAll(() => device.close());

const newPool = () => StatePool.create(device, { slots: 3, layers: 1, keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, conv: false });

/** An op over `tokens` tokens whose state reveals its β. */
function opOf(states: LayerStates, beta: number, tokens: number, cuSeqlens?: Indices) {
  const filled = (value: number, ...shape: number[]) => device.tensorFrom("f32", shape, Array.from({ length: shape.reduce((a, b) => a * b) }, () => value));
  const row = [tokens, 1, 8] as const;
  return gatedDelta({
    query: filled(1, ...row), key: filled(1, ...row), value: filled(1, ...row), gate: filled(0, tokens, 1), beta: filled(beta, tokens, 1),
    out: device.tensor("f32", row), gateForm: "log", states, cuSeqlens,
  });
}

/** Numbers, the last of which calls `use`, if set, before it is read. */
function calling(numbers: number[], hook: { use?: (() => void) | undefined }): number[] {
  const last = numbers.length - 1;
  const value = numbers[last];
  return Object.defineProperty(numbers, last, {
    get() {
      hook.use?.();
      return value;
    },
  });
}

test("a replay refuses another plan of its placeholder while it reads its indices", () => {
  using pool = newPool();
  const placeholder = pool.placeholder(1);
  const hook: { use?: (() => void) | undefined } = {};
  using other = device.plan((pass) => pass.encode(opOf(placeholder.layer(0), 1, 1)));
  using plan = device.plan((pass) => pass.encode(opOf(placeholder.layer(0), 0.25, 1, calling([0, 1], hook))));
  const [a, b] = [pool.allocate(), pool.allocate()];
  let refused: string | undefined;
  hook.use = () => (refused = thrownBy(() => pool.run([b], other)).code);
  pool.run([a], plan);
  hook.use = undefined;
  device.wait();
  expect(refused).toBe("state");
  expect(b.slot).toBe(-1);
  pool.run([b], other);
  device.wait();
  const first = (slot: number) => pool.state(0).data[slot * 64];
  expect([first(a.slot), first(b.slot)]).toEqual([0.25, 1]);
});

test.each(["deltas", "snapshots"] as const)("a draft of %s that is aborted while its commit reads is not ended twice", (records) => {
  using pool = newPool();
  const handle = pool.allocate();
  const draft = pool.draft([handle], [2], { records });
  draft.run(() => [opOf(draft.layer(0), 0.5, 2)]);
  const accepted = calling([2], { use: () => draft.open && draft.abort() });
  expect(thrownBy(() => draft.commit(accepted)).code).toBe("state");
  expect(pool.free).toBe(pool.capacity - 1);
  const handles = [handle, pool.allocate(), pool.allocate()];
  for (const each of handles) pool.run([each], (step) => [opOf(step.layer(0), 1, 1)]);
  expect(new Set(handles.map(({ slot }) => slot)).size).toBe(3);
});
