/** Any value in any place gives a typed error or a sound result, never an error of the engine. */
import { describe, expect, test } from "bun:test";
import { GatedDeltaError, GatedDeltaNet, StatePool, decodeBf16, encodeBf16 } from "../lib/index.ts";
import type { Op } from "../lib/index.ts";
import { makeOp, addOp, opNames, soundArguments } from "./support/arguments.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { hostileValues } from "./support/hostile-values.ts";
import { randomWeights, smallConfig, writeLayer } from "./support/layers.ts";
import { Random } from "./support/random.ts";

const device = openDevice();
const shape = { keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, convWidth: 4 };
const pool = StatePool.create(device, { slots: 4, layers: 1, ...shape });
const path = writeLayer(smallConfig, randomWeights(new Random(3), smallConfig, "f32"), "f32");
const layer = GatedDeltaNet.load(device, path, { layer: 0 });
const layerPool = StatePool.create(device, { slots: 4, layers: 1, ...layer.stateShape });

/** Passes a value of any type to TypeScript. */
const as = (value: unknown) => value as never;
const tensor = () => device.tensor("f32", [2, 3]);

function layerArguments() {
  const row = (size: number) => device.tensor("f32", [1, size]);
  const { keyHeads, valueHeads, keyDim, valueDim, hiddenSize } = layer.config;
  const [values, channels] = [valueHeads * valueDim, 2 * keyHeads * keyDim + valueHeads * valueDim];
  const inner = { qkv: row(channels), z: row(values), a: row(valueHeads), b: row(valueHeads) };
  const states = { pool: layerPool, step: { readSlots: [-1], writeSlots: [0] } };
  const whole = { hidden: row(hiddenSize), out: row(hiddenSize), ...states };
  const core = { ...inner, out: row(values), ...states };
  return { forward: whole, decode: whole, mix: core, mixStep: core };
}

/** Every call that takes a value of the caller's, with such a value. */
const calls: Record<string, (value: unknown) => unknown> = {
  tensor: (value) => device.tensor("f32", as(value)),
  "tensor of one dimension": (value) => device.tensor("f32", [as(value)]),
  dtype: (value) => device.tensor(as(value), [1]),
  "tensorFrom f32": (value) => device.tensorFrom("f32", [2, 3], as(value)),
  "tensorFrom bf16": (value) => device.tensorFrom("bf16", [2], as(value)),
  "tensorFrom i32": (value) => device.tensorFrom("i32", [2], as(value)),
  "copyFrom into a view": (value) => device.tensor("f16", [2, 4]).narrow(1, 0, 1).copyFrom(as(value)),
  "copyFrom two": (value) => device.tensor("f32", [2]).copyFrom([as(value), as(value)]),
  wrap: (value) => device.wrap("f32", [1], as(value)),
  unsafeWrap: (value) => device.unsafeWrap("f32", [1], as(value)),
  "fromPointer's shape": (value) => device.fromPointer("f32", as(value), 64, { owner: {} }),
  "fromPointer's bytes": (value) => device.fromPointer("f32", [2 ** 29], 64, { owner: {}, bytes: as(value) }),
  "fromPointer's options": (value) => device.fromPointer("f32", [1], 1, as(value)),
  view: (value) => tensor().view(as(value)),
  "view's shape": (value) => tensor().view({ shape: as(value) }),
  "view's strides": (value) => tensor().view({ shape: [1, 1], strides: as(value) }),
  reshape: (value) => tensor().reshape(as(value)),
  slice: (value) => tensor().slice(as(value), as(value)),
  narrow: (value) => tensor().narrow(as(value), as(value), as(value)),
  run: (value) => device.run(as(value)),
  "run's function": (value) => device.run((() => value) as never),
  wait: (value) => device.wait(as(value)),
  "pool's device": (value) => StatePool.create(as(value), { slots: 1, layers: 1, ...shape }),
  "pool's options": (value) => StatePool.create(device, as(value)),
  "pool's slots": (value) => StatePool.create(device, { slots: as(value), layers: 1, ...shape }),
  step: (value) => pool.step(as(value)),
  "step of one": (value) => pool.step([as(value)]),
  "step's options": (value) => pool.step([], as(value)),
  zero: (value) => pool.zero(as(value)),
  decodeBf16: (value) => decodeBf16(as(value)),
  encodeBf16: (value) => encodeBf16(as(value)),
  "load's device": (value) => GatedDeltaNet.load(as(value), path, { layer: 0 }),
  "load's files": (value) => GatedDeltaNet.load(device, as(value), { layer: 0 }),
  "load's file": (value) => GatedDeltaNet.load(device, [as(value)], { layer: 0 }),
  "load's options": (value) => GatedDeltaNet.load(device, path, as(value)),
  "load's layer": (value) => GatedDeltaNet.load(device, path, { layer: as(value) }),
  "load's config": (value) => GatedDeltaNet.load(device, path, { layer: 0, config: as(value) }),
};
for (const method of ["forward", "decode", "mix", "mixStep"] as const) {
  const make = (args: unknown): Op[] => layer[method](args as never);
  calls[`layer.${method}`] = (value) => device.run(...make(value));
  for (const argument of [...Object.keys(layerArguments()[method]), "cuSeqlens"]) {
    calls[`layer.${method}'s ${argument}`] = (value) =>
      device.run(...make({ ...layerArguments()[method], [argument]: value }));
  }
  for (const slots of ["readSlots", "writeSlots"]) {
    calls[`layer.${method}'s step's ${slots}`] = (value) => {
      const { step, ...rest } = layerArguments()[method];
      device.run(...make({ ...rest, step: { ...step, [slots]: value } }));
    };
  }
}
for (const name of opNames) {
  for (const argument of Object.keys(soundArguments[name](device))) {
    calls[`${name}'s ${argument}`] = (value) =>
      device.run(makeOp(name, { ...soundArguments[name](device), [argument]: value }));
    calls[`${name}'s ${argument} in a plan`] = (value) => {
      using plan = device.plan((pass) => addOp(pass, name, { ...soundArguments[name](device), [argument]: value }));
      plan.run();
    };
  }
}

const values = hostileValues(device);

test.each(Object.entries(calls))("%s", (_, call) => {
  for (const [name, value] of values) {
    try {
      call(value);
    } catch (error) {
      if (!(error instanceof GatedDeltaError)) throw new Error(`given ${name}, it threw`, { cause: error });
    }
  }
  device.wait();
});

test("finish", async () => {
  for (const [, value] of values) {
    for (const options of [value, { signal: value }, { timeoutMs: value }]) {
      const error: unknown = await device.finish(as(options)).catch((error: unknown) => error);
      if (error !== undefined) expect(error).toBeInstanceOf(GatedDeltaError);
    }
  }
});

describe("reading a caller's array may do anything", () => {
  /** An array that does something when its second element is read. */
  const trap = (elements: readonly number[], act: () => void) =>
    new Proxy([...elements], { get: (target, key) => (key === "1" && act(), Reflect.get(target, key)) });

  test("dispose the tensor that the numbers are for", () => {
    for (const view of [false, true]) {
      const base = device.tensor("f32", [2, 2]);
      const target = view ? base.view({ shape: [2, 1], strides: [2, 1] }) : base;
      const source = trap(new Array(target.size).fill(1), () => base[Symbol.dispose]());
      expect(thrownBy(() => target.copyFrom(source))).toMatchObject({ code: "disposed", op: "tensor.copyFrom" });
    }
  });

  test("close the device", () => {
    using other = openDevice();
    using tensor = other.tensor("f32", [4, 8]);
    const readSlots = trap([0, 1], () => other.close());
    const op = makeOp("copySlots", { pool: tensor, readSlots, writeSlots: [2, 3] });
    expect(thrownBy(() => other.run(op)).code).toBe("state");
    let armed = false;
    const slots = trap([0, 1], () => armed && other.close());
    const plan = other.plan((pass) => addOp(pass, "copySlots", { pool: tensor, readSlots: slots, writeSlots: [2, 3] }));
    armed = true;
    expect(thrownBy(() => plan.run()).code).toBe("state");
    armed = false;
    plan.run();
  });
});
