import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Device, GatedDeltaError, GatedDeltaNet, StatePool } from "../lib/index.ts";
import type { ErrorCode, Op, PoolStep } from "../lib/index.ts";
import { writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { scratch } from "./support/files.ts";
import { loadingOn, prefixOf, randomWeights, smallConfig, tensorsOf, writeLayer, writeSharded } from "./support/layers.ts";
import { Random } from "./support/random.ts";

const { folder, newPath } = scratch();
const device = Device.open();
afterAll(() => device[Symbol.dispose]());
const weights = randomWeights(new Random(21), smallConfig, "f32");
const good = writeLayer(smallConfig, weights, "f32");
const { outputOf, refused } = loadingOn(device);

function newFolder(): string {
  return mkdtempSync(join(folder, "checkpoint-"));
}

const expected = outputOf(good);

describe("where a layer's tensors may be", () => {
  test.each([
    "model.layers.3.linear_attn.",
    "model.language_model.layers.3.linear_attn.",
    "language_model.model.layers.3.linear_attn.",
    "language_model.layers.3.linear_attn.",
    "layers.3.linear_attn.",
    "layers.3.",
  ])("%s", (prefix) => {
    const path = writeLayer(smallConfig, weights, "f32", { prefix });
    expect(outputOf(path, { layer: 3 })).toEqual(expected);
    expect(refused(path, { layer: 2 }).message).toContain("weights of layers 3");
  });

  test("a folder with an index, its index, its shards as a list", () => {
    const at = newFolder();
    writeSharded(at, smallConfig, weights, "f32", prefixOf(0));
    expect(outputOf(at)).toEqual(expected);
    expect(outputOf(join(at, "model.safetensors.index.json"))).toEqual(expected);
    const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"].map((name) => join(at, name));
    expect(outputOf(shards)).toEqual(expected);
  });

  test("a folder with a single file", () => {
    const at = newFolder();
    writeSafetensors(join(at, "model.safetensors"), tensorsOf(weights, "f32", prefixOf(0)));
    expect(refused(at).message).toContain("config.json");
    writeFileSync(join(at, "config.json"), JSON.stringify(smallConfig));
    expect(outputOf(at)).toEqual(expected);
  });

  test("the configuration of a folder, before that of its file's metadata", () => {
    const at = newFolder();
    const other = JSON.stringify({ ...smallConfig, rms_norm_eps: 0.5 });
    const tensors = tensorsOf(weights, "f32", prefixOf(0));
    writeSafetensors(join(at, "model.safetensors"), tensors, { config: other });
    expect(outputOf(at)).not.toEqual(expected);
    writeFileSync(join(at, "config.json"), JSON.stringify(smallConfig));
    expect(outputOf(at)).toEqual(expected);
    writeSafetensors(join(at, "layer.safetensors"), tensors, { config: other });
    expect(outputOf(join(at, "layer.safetensors"))).not.toEqual(expected);
  });

  test("conv1d.weight without its middle dimension", () => {
    const conv = weights.get("conv1d.weight")!;
    const flat = new Map([...weights, ["conv1d.weight", { shape: [conv.shape[0]!, conv.shape[2]!], data: conv.data }]]);
    expect(outputOf(writeLayer(smallConfig, flat, "f32"))).toEqual(expected);
  });

  test("conv1d.weight with its axes as mlx-lm moves them", () => {
    const conv = weights.get("conv1d.weight")!;
    const moved = new Map([...weights, ["conv1d.weight", { shape: [conv.shape[0]!, conv.shape[2]!, 1], data: conv.data }]]);
    expect(outputOf(writeLayer(smallConfig, moved, "f32"))).toEqual(expected);
  });

  test("a convolution's bias is used", () => {
    const bias = { dtype: "F32", shape: [208], data: new Float32Array(208).fill(0.5) } as const;
    const path = writeLayer(smallConfig, weights, "f32", { more: { [`${prefixOf(0)}conv1d.bias`]: bias } });
    expect(outputOf(path)).not.toEqual(expected);
    const none = { ...bias, data: new Float32Array(208) };
    const plain = writeLayer(smallConfig, weights, "f32", { more: { [`${prefixOf(0)}conv1d.bias`]: none } });
    expect(outputOf(plain)).toEqual(expected);
  });
});

describe("weights that are refused", () => {
  const zeros = (dtype: TensorToWrite["dtype"], shape: readonly number[], bytes: number): TensorToWrite => {
    return { dtype, shape, data: new Uint8Array(shape.reduce((a, b) => a * b, bytes)) };
  };
  const changed = (name: string, tensor: TensorToWrite | undefined): string => {
    const tensors = new Map(Object.entries(tensorsOf(weights, "f32", prefixOf(0))));
    if (tensor) tensors.set(prefixOf(0) + name, tensor);
    else tensors.delete(prefixOf(0) + name);
    const path = newPath();
    writeSafetensors(path, tensors, { config: JSON.stringify(smallConfig) });
    return path;
  };

  test.each([...weights.keys()])("%s missing", (name) => {
    const error = refused(changed(name, undefined));
    expect(error.code).toBe("file");
    expect(error.message).toContain(name);
  });

  test.each([...weights.keys()])("%s of another shape", (name) => {
    const shape = weights.get(name)!.shape.with(0, 7);
    const error = refused(changed(name, zeros("F32", shape, 4)));
    expect(error.code).toBe("file");
    expect(error.message).toContain(name);
    expect(error.received).toBe(`[${shape.join(", ")}]`);
  });

  test.each([["F64", 8], ["F8_E4M3", 1], ["I32", 4]] as const)("in %s", (dtype, bytes) => {
    const error = refused(changed("out_proj.weight", zeros(dtype, [48, 144], bytes)));
    expect([error.code, error.received]).toEqual(["dtype", dtype]);
  });

  const strangers = [
    "in_proj_qkv.weight_scale_inv", "out_proj.scales", "in_proj_z.bias", "conv1d.weight.zeros", "norm.bias", "q_proj.weight", "A", "in_proj_ba.weight",
  ];
  test.each(strangers)("with an unused %s", (name) => {
    const error = refused(changed(name, zeros("F32", [1], 4)));
    expect(error.code).toBe("unsupported");
    expect(error.argument).toContain(name);
  });

  test("of two layouts or two prefixes at once", () => {
    expect(refused(changed("in_proj_qkvz.weight", zeros("F32", [1], 4))).message).toContain("both in_proj_qkv and in_proj_qkvz");
    const path = writeLayer(smallConfig, weights, "f32", { more: tensorsOf(weights, "f32", "layers.0.") });
    expect(refused(path).message).toContain("layers.0.");
  });

  test("files that are not there, or no checkpoint", () => {
    for (const files of [join(folder, "nowhere"), newFolder(), [], [good, good + "x"]]) {
      expect(["file", "invalid-argument"]).toContain(refused(files).code);
    }
  });
});

describe("arguments that are refused", () => {
  test.each([
    [null, ""],
    [{}, "layer"],
    [{ layer: -1 }, "layer"],
    [{ layer: 1.5 }, "layer"],
    [{ layer: "0" }, "layer"],
    [{ layer: 0, dtype: "f64" }, "dtype"],
    [{ layer: 0, poolLayer: NaN }, "poolLayer"],
    [{ layer: 0, config: 3 }, "config"],
    [{ layer: 0, layers: 3 }, "layers"],
  ])("load with %j", (options, argument) => {
    const error = refused(good, options as object);
    expect([error.code, error.argument]).toEqual(["invalid-argument", argument]);
  });

  test("calls", () => {
    using layer = GatedDeltaNet.load(device, good, { layer: 0 });
    using pool = StatePool.create(device, { slots: 2, layers: 1, ...layer.stateShape });
    using deep = StatePool.create(device, { slots: 2, layers: 2, ...layer.stateShape });
    using other = StatePool.create(device, { slots: 4, layers: 1, ...layer.stateShape, valueDim: 16 });
    using hidden = device.tensor("f32", [2, 48]);
    using out = device.tensor("f32", [2, 48]);
    const stepOf = (of: StatePool) => of.step([of.allocate(), of.allocate()]);
    const cuSeqlens = [0, 1, 2];
    const step = stepOf(pool);
    const over = stepOf(other);
    over.abort();
    const fine = { hidden, out, cuSeqlens, step };
    const failing: [change: object, code: ErrorCode, argument: string | undefined][] = [
      [{ hidden: device.tensor("f32", [2, 40]) }, "shape", "hidden"],
      [{ hidden: device.tensor("f32", [2, 1, 48]) }, "shape", "hidden"],
      [{ hidden: device.tensor("bf16", [2, 48]) }, "dtype", "hidden"],
      [{ hidden: undefined }, "invalid-argument", "hidden"],
      [{ out: device.tensor("f32", [3, 48]) }, "shape", "out"],
      [{ out: device.tensor("f16", [2, 48]) }, "dtype", "out"],
      [{ out: hidden.data }, "invalid-argument", "out"],
      [{ step: stepOf(deep) }, "invalid-argument", "step"],
      [{ step: stepOf(other) }, "shape", "state"],
      [{ step: over }, "state", undefined],
      [{ step: undefined }, "invalid-argument", "step"],
      [{ step: { readSlots: [0, 1], writeSlots: [0, 1] } }, "invalid-argument", "step"],
      [{ draft: step }, "invalid-argument", "draft"],
      [{ pool }, "invalid-argument", "pool"],
      [{ cuSeqlens: [0, 1, 3] }, "range", "cuSeqlens"],
      [{ cuSeqlens: [0, 1, 1] }, "range", "cuSeqlens"],
      [{ cuSeqlens: undefined }, "shape", "cuSeqlens"],
      [{ cuSeqlens: [0, 2] }, "shape", "readSlots"],
    ];
    for (const [change, code, argument] of failing) {
      let error: unknown;
      try {
        device.run(...layer.forward({ ...fine, ...change }));
      } catch (caught) {
        error = caught;
      }
      expect(error).toBeInstanceOf(GatedDeltaError);
      expect([(error as GatedDeltaError).code, (error as GatedDeltaError).argument]).toEqual([code, argument]);
    }
    device.run(...layer.forward(fine));
    step.done();
    device.wait();
    expect(new Set(out.data)).toEqual(new Set([0])); // zeros in, zeros out: the failures left nothing behind
  });

  test("out may be hidden itself: the projections are done when it is written", () => {
    using layer = GatedDeltaNet.load(device, good, { layer: 0 });
    using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
    using hidden = device.tensorFrom("f32", [1, 48], Array.from({ length: 48 }, (_, i) => Math.sin(i)));
    pool.run([pool.allocate()], (step) => layer.decode({ hidden, out: hidden, step }));
    device.wait();
    expect(hidden.data).toEqual(expected);
  });

  test("a step of other sequences is refused by the layer's own names", () => {
    using layer = GatedDeltaNet.load(device, good, { layer: 0 });
    using pool = StatePool.create(device, { slots: 2, layers: 1, ...layer.stateShape });
    using hidden = device.tensor("f32", [2, 48]);
    using out = device.tensor("f32", [2, 48]);
    const handles = [pool.allocate(), pool.allocate()];
    const calls: [count: number, call: (step: PoolStep) => Op[], error: string][] = [
      [1, (step) => layer.decode({ hidden, out, step }), "GatedDeltaNet.decode: step: expected as many sequences as rows, 2, got 1"],
      [2, (step) => layer.decode({ hidden: hidden.slice(0, 1), out: out.slice(0, 1), step }), "GatedDeltaNet.decode: step: expected as many sequences as rows, 1, got 2"],
      [2, (step) => layer.forward({ hidden, out, step }), "GatedDeltaNet.forward: cuSeqlens: expected 3 row offsets, for the 2 sequences of the step, got none"],
    ];
    for (const [count, call, error] of calls) expect(() => pool.run(handles.slice(0, count), call)).toThrow(error);
    const placeholder = pool.placeholder(2);
    expect(() => layer.decode({ hidden: hidden.slice(1), out: out.slice(1), step: placeholder })).toThrow(calls[1]![2]);
  });

  test("a layer that was disposed", () => {
    const layer = GatedDeltaNet.load(device, good, { layer: 0 });
    using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
    using hidden = device.tensor("f32", [1, 48]);
    using out = device.tensor("f32", [1, 48]);
    const args = { hidden, out, step: pool.step([pool.allocate()]) };
    const ops = layer.decode(args);
    layer[Symbol.dispose]();
    layer[Symbol.dispose]();
    const code = (run: () => unknown) => {
      try {
        run();
      } catch (error) {
        return (error as GatedDeltaError).code;
      }
      return undefined;
    };
    expect(code(() => layer.forward(args))).toBe("disposed");
    expect(code(() => layer.decode(args))).toBe("disposed");
    expect(code(() => device.run(...ops))).toBe("disposed");
  });
});
