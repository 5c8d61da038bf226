/** Properties that a draft infers from the ops that verify it: dtypes, gates per key dimension, the head map. */
import { afterAll, describe, expect, test } from "bun:test";
import { StatePool, causalConv1d, gatedDelta } from "../lib/index.ts";
import type { FloatDType, HeadMap, Op, Tensor } from "../lib/index.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { loadRandom, smallConfig } from "./support/layers.ts";
import { Random } from "./support/random.ts";

const device = openDevice();
afterAll(() => device.close());
const tokens = 4;

describe.each(["f32", "bf16", "f16"] as const)("a layer of %s", (dtype) => {
  test.each(["f32", dtype] as const)("drafts in a pool of %s convolution states, with the bits of single tokens", (convDtype) => {
    const { layer } = loadRandom(device, smallConfig, 31, "f32", { dtype });
    using _ = layer;
    const width = smallConfig.hidden_size;
    const random = new Random(32);
    using hidden = device.tensor(dtype as FloatDType, [tokens, width]);
    hidden.copyFrom(Array.from({ length: tokens * width }, () => random.normal()));
    using out = device.tensor("f32", [tokens, width]);
    const states = (how: "draft" | "steps") => {
      using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape, convDtype });
      using handle = pool.allocate();
      if (how === "draft") {
        const draft = pool.draft([handle], [tokens]);
        draft.run(() => layer.forward({ hidden, out, draft }));
        draft.commit([3]);
      } else {
        for (let t = 0; t < 3; t++) pool.run([handle], (step) => layer.decode({ hidden: hidden.slice(t, t + 1), out: out.slice(t, t + 1), step }));
      }
      device.wait();
      return [pool.state(0), pool.conv(0)].map((tensor) => [...tensor.slice(handle.slot, handle.slot + 1).toFloat32()]);
    };
    expect(states("draft")).toEqual(states("steps"));
  });
});

describe.each(["head", "key"] as const)("gates per %s", (gateDims) => {
  test.each(["block", "tiled"] as const)("%s heads: the commit has the bits of single tokens", (headMap) => {
    const sizes = { keyHeads: 2, valueHeads: 4, keyDim: 8, valueDim: 16 };
    const { keyHeads, valueHeads, keyDim, valueDim } = sizes;
    const random = new Random(33);
    const make = (...shape: number[]) => {
      const tensor = device.tensor("f32", shape);
      tensor.data.forEach((_, i) => (tensor.data[i] = random.uniform(-1, 1)));
      return tensor as Tensor;
    };
    const all = {
      query: make(tokens, keyHeads, keyDim), key: make(tokens, keyHeads, keyDim), value: make(tokens, valueHeads, valueDim),
      gate: gateDims === "key" ? make(tokens, valueHeads, keyDim) : make(tokens, valueHeads), beta: make(tokens, valueHeads),
      out: make(tokens, valueHeads, valueDim),
    };
    const op = (states: ReturnType<ReturnType<StatePool["step"]>["layer"]>, from: number, to: number, other: object = {}): Op => {
      const part = Object.fromEntries(Object.entries(all).map(([name, tensor]) => [name, tensor.slice(from, to)])) as typeof all;
      return gatedDelta({ ...part, gateForm: "log", gateDims, qkNorm: "l2", states, headMap: headMap as HeadMap, ...other });
    };
    const stateAfter = (how: "draft" | "steps") => {
      using pool = StatePool.create(device, { slots: 1, layers: 1, ...sizes, conv: false });
      using handle = pool.allocate();
      pool.run([handle], (step) => [op(step.layer(0), 0, 1)]);
      if (how === "draft") {
        const draft = pool.draft([handle], [3]);
        // Ops that are made, or refused, without being run: with a different head map, and with different gates.
        op(draft.layer(0), 1, 4, { headMap: headMap === "block" ? "tiled" : "block" });
        thrownBy(() => draft.run(() => [op(draft.layer(0), 1, 4, { gateDims: gateDims === "head" ? "key" : "head" })]));
        draft.run(() => [op(draft.layer(0), 1, 4)]);
        op(draft.layer(0), 1, 4, { headMap: headMap === "block" ? "tiled" : "block" });
        draft.commit([2]);
      } else {
        for (const t of [1, 2]) pool.run([handle], (step) => [op(step.layer(0), t, t + 1)]);
      }
      device.wait();
      return [...pool.state(0).slice(handle.slot, handle.slot + 1).toFloat32()];
    };
    expect(stateAfter("draft")).toEqual(stateAfter("steps"));
  });
});

test("the convolution's record is the draft's own input", () => {
  using pool = StatePool.create(device, { slots: 1, layers: 1, keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, convWidth: 4 });
  using handle = pool.allocate();
  using draft = pool.draft([handle], [2]);
  const other = device.tensor("f32", [2, 24]);
  const weight = device.tensor("f32", [24, 4]);
  const conv = (x: Tensor) => device.run(causalConv1d({ x, weight, out: other, states: draft.layer(0) }));
  expect(thrownBy(() => conv(device.tensor("f32", [2, 24]))).argument).toBe("x");
  conv(draft.convInput(0));
  expect(thrownBy(() => draft.convInput(0, "bf16")).argument).toBe("dtype");
});
