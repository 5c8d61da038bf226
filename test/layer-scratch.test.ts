import { afterAll, describe, expect, spyOn, test } from "bun:test";
import { Device, StatePool } from "../lib/index.ts";
import type { GatedDeltaNet } from "../lib/index.ts";
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
      const cuSeqlens = [0, 1, tokens];
      pool.run(handles, (step) => layer.forward({ hidden: hidden.slice(0, tokens), out: out.slice(0, tokens), cuSeqlens, step }));
      if (tokens === 2) pool.run(handles, (step) => layer.decode({ hidden: hidden.slice(0, 2), out: out.slice(0, 2), step }));
      device.wait();
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

  test("layers of one shape share scratch memory, until the last of them is disposed", () => {
    using own = Device.open("cpu");
    const { layer: first } = loadRandom(own, smallConfig, 10);
    const { layer: second } = loadRandom(own, smallConfig, 11);
    using pool = StatePool.create(own, { slots: 1, layers: 1, ...first.stateShape });
    using handle = pool.allocate();
    using hidden = own.tensor("f32", [8, smallConfig.hidden_size]);
    const allocate = spyOn(own, "tensor");
    const run = (layer: GatedDeltaNet) => void pool.run([handle], (step) => layer.forward({ hidden, out: hidden, step }));
    try {
      run(first);
      const [made] = [allocate.mock.calls.length];
      expect(made).toBeGreaterThan(0);
      run(second);
      first[Symbol.dispose]();
      run(second);
      expect(allocate).toHaveBeenCalledTimes(made);
      const { layer: wider } = loadRandom(own, { ...smallConfig, linear_num_key_heads: 1, linear_num_value_heads: 4 }, 12);
      using _ = wider;
      second[Symbol.dispose]();
      const { layer: third } = loadRandom(own, smallConfig, 13);
      using __ = third;
      allocate.mockClear();
      run(third);
      expect(allocate).toHaveBeenCalled();
    } finally {
      allocate.mockRestore();
    }
    own.wait();
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
    const ops = steps.flatMap((step, i) => fresh.forward({ hidden: tensors[i]!, out: outs[i]!, step }));
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
    const placeholder = pool.placeholder(1);
    using plan = device.plan((pass) => {
      for (const op of layer.decode({ hidden: input, out, step: placeholder })) pass.encode(op);
    });
    const output = new Float32Array(tokens * width);
    for (let at = 0; at < tokens; at++) {
      input.data.set(hidden[0]!.data.subarray(at * width, (at + 1) * width));
      pool.run([handle], plan);
      device.wait();
      output.set(out.data, at * width);
    }
    expect(bitsEqual(output, base.outputs[0]!)).toBe(true);
  });
});
