import { afterAll, describe, expect, spyOn, test } from "bun:test";
import { Device, StatePool } from "../lib/index.ts";
import { bitsEqual } from "../lib/cli/verify/compare.ts";
import { drive, randomHidden } from "./support/drive.ts";
import { loadRandom, smallConfig } from "./support/layers.ts";
import { Random } from "./support/random.ts";

const device = Device.open();
afterAll(() => device[Symbol.dispose]());

describe("what a call costs", () => {
  test("scratch is allocated once for shapes that repeat, and grows for larger ones", () => {
    const { layer } = loadRandom(device, smallConfig, 10);
    using _ = layer;
    const width = smallConfig.hidden_size;
    using pool = StatePool.create(device, { slots: 2, layers: 1, ...layer.stateShape });
    const handles = [pool.allocate(), pool.allocate()];
    using hidden = device.tensor("f32", [40, width]);
    using out = device.tensor("f32", [40, width]);
    const call = (tokens: number) => {
      const step = pool.step(handles);
      const cuSeqlens = [0, 1, tokens];
      device.run(...layer.forward({ hidden: hidden.slice(0, tokens), out: out.slice(0, tokens), cuSeqlens, pool, step }));
      if (tokens === 2) device.run(...layer.decode({ hidden: hidden.slice(0, 2), out: out.slice(0, 2), pool, step }));
      device.wait();
      step.done();
    };
    call(20);
    const allocate = spyOn(device, "tensor");
    try {
      for (const tokens of [20, 2, 7, 2, 20, 1]) call(Math.max(2, tokens));
      expect(allocate).toHaveBeenCalledTimes(0);
      call(40);
      expect(allocate.mock.calls.length).toBeGreaterThan(0);
      const grown = allocate.mock.calls.length;
      call(40);
      call(3);
      expect(allocate).toHaveBeenCalledTimes(grown);
    } finally {
      allocate.mockRestore();
    }
  });

  test("ops made before the scratch grew still run", () => {
    const { layer } = loadRandom(device, smallConfig, 11);
    using _ = layer;
    const hidden = randomHidden(new Random(12), [4, 30], smallConfig.hidden_size);
    const base = drive(layer, [hidden[0]!], [[{ sequence: 0, tokens: 4 }]]);
    const { layer: fresh } = loadRandom(device, smallConfig, 11);
    using __ = fresh;
    using pool = StatePool.create(device, { slots: 2, layers: 1, ...layer.stateShape });
    const handles = [pool.allocate(), pool.allocate()];
    const tensors = hidden.map(({ shape, data }) => device.tensorFrom("f32", shape, data));
    const outs = hidden.map(({ shape }) => device.tensor("f32", shape));
    const steps = handles.map((handle) => pool.step([handle]));
    const ops = steps.flatMap((step, i) => fresh.forward({ hidden: tensors[i]!, out: outs[i]!, pool, step }));
    device.run(...ops);
    device.wait();
    expect(bitsEqual(outs[0]!.data, base.outputs[0]!)).toBe(true);
  });

  test("a plan replays a decode step", () => {
    const { layer } = loadRandom(device, smallConfig, 13);
    using _ = layer;
    const width = smallConfig.hidden_size;
    const tokens = 5;
    const hidden = randomHidden(new Random(14), [tokens], width);
    const base = drive(layer, hidden, [[{ sequence: 0, tokens }]]);
    using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
    using handle = pool.allocate();
    using input = device.tensor("f32", [1, width]);
    using out = device.tensor("f32", [1, width]);
    const slots = { readSlots: new Int32Array(1), writeSlots: new Int32Array(1) };
    const ops = layer.decode({ hidden: input, out, pool, step: slots });
    const first = pool.step([handle]);
    slots.readSlots.set(first.readSlots);
    slots.writeSlots.set(first.writeSlots);
    first.abort();
    using plan = device.plan((pass) => ops.forEach((op) => pass.encode(op)));
    const output = new Float32Array(tokens * width);
    for (let at = 0; at < tokens; at++) {
      input.data.set(hidden[0]!.data.subarray(at * width, (at + 1) * width));
      const step = pool.step([handle]);
      slots.readSlots.set(step.readSlots);
      slots.writeSlots.set(step.writeSlots);
      plan.run();
      device.wait();
      step.done();
      output.set(out.data, at * width);
    }
    expect(bitsEqual(output, base.outputs[0]!)).toBe(true);
  });
});
