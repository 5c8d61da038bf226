import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BoundsError, Device, GatedDeltaError, GatedDeltaNet, StatePool } from "../lib/index.ts";
import type { ErrorCode, GatedDeltaNetOptions } from "../lib/index.ts";
import { writeSafetensors } from "../lib/safetensors/safetensors.ts";
import type { TensorToWrite } from "../lib/safetensors/safetensors.ts";
import { scratch } from "./support/files.ts";
import { prefixOf, randomWeights, smallConfig, tensorsOf, writeLayer, writeSharded } from "./support/layers.ts";
import { Random } from "./support/random.ts";

const { folder, newPath } = scratch();
const device = Device.open();
afterAll(() => device[Symbol.dispose]());
const weights = randomWeights(new Random(21), smallConfig, "f32");
const good = writeLayer(smallConfig, weights, "f32");
const { hidden_size: _, ...withoutHidden } = smallConfig;

function newFolder(): string {
  return mkdtempSync(join(folder, "checkpoint-"));
}

/** Loads, runs one token so that the weights are proven to be the right ones, and gives the output. */
function outputOf(files: string | readonly string[], options: Partial<GatedDeltaNetOptions> = {}): Float32Array {
  using layer = GatedDeltaNet.load(device, files, { layer: 0, ...options });
  using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
  using handle = pool.allocate();
  using hidden = device.tensorFrom("f32", [1, 48], Array.from({ length: 48 }, (_, i) => Math.sin(i)));
  using out = device.tensor("f32", [1, 48]);
  pool.run([handle], (step) => layer.decode({ hidden, out, step }));
  device.wait();
  return out.data.slice();
}

const expected = outputOf(good);

/** The error of a load that must fail. */
function refused(files: string | readonly string[], options: object = { layer: 0 }): GatedDeltaError {
  try {
    GatedDeltaNet.load(device, files, options as GatedDeltaNetOptions)[Symbol.dispose]();
  } catch (error) {
    if (error instanceof GatedDeltaError) return error;
    throw error;
  }
  throw new Error("it was loaded");
}

describe("where a layer's tensors may be", () => {
  test.each([
    "model.layers.3.linear_attn.",
    "model.language_model.layers.3.linear_attn.",
    "language_model.model.layers.3.linear_attn.",
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

  test("conv1d.weight without its middle dimension", () => {
    const conv = weights.get("conv1d.weight")!;
    const flat = new Map([...weights, ["conv1d.weight", { shape: [conv.shape[0]!, conv.shape[2]!], data: conv.data }]]);
    expect(outputOf(writeLayer(smallConfig, flat, "f32"))).toEqual(expected);
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

describe("where a configuration may be", () => {
  test("what is passed wins over the file's own", () => {
    const path = writeLayer({ ...smallConfig, output_gate_type: "sigmoid" }, weights, "f32");
    expect(outputOf(path)).not.toEqual(expected);
    expect(outputOf(path, { config: smallConfig })).toEqual(expected);
    const file = newPath("config.json");
    writeFileSync(file, JSON.stringify({ text_config: smallConfig, vision_config: {} }));
    expect(outputOf(path, { config: file })).toEqual(expected);
  });

  test("sizes and options of a layer can be read", () => {
    using layer = GatedDeltaNet.load(device, good, { layer: 0, dtype: "bf16" });
    expect(layer.config).toEqual({
      hiddenSize: 48, keyHeads: 2, valueHeads: 6, keyDim: 16, valueDim: 24, convWidth: 4, normEps: 1e-6, outputGate: "silu",
    });
    expect(layer.stateShape).toEqual({ keyHeads: 2, valueHeads: 6, keyDim: 16, valueDim: 24, convWidth: 4 });
    expect([layer.layer, layer.dtype, layer.device]).toEqual([0, "bf16", device]);
  });

  const bad: [what: string, config: object, code: ErrorCode, argument: string][] = [
    ["a missing size", withoutHidden, "invalid-argument", "config.hidden_size"],
    ["a size of another type", { ...smallConfig, hidden_size: "48" }, "invalid-argument", "config.hidden_size"],
    ["a head dimension that is no multiple of 8", { ...smallConfig, linear_key_head_dim: 12 }, "invalid-argument", "config.linear_key_head_dim"],
    ["too wide a head", { ...smallConfig, linear_value_head_dim: 264 }, "invalid-argument", "config.linear_value_head_dim"],
    ["too many taps", { ...smallConfig, linear_conv_kernel_dim: 10 }, "invalid-argument", "config.linear_conv_kernel_dim"],
    ["heads that do not divide", { ...smallConfig, linear_num_value_heads: 5 }, "invalid-argument", "config.linear_num_value_heads"],
    ["a size out of all proportion", { ...smallConfig, linear_num_key_heads: 1e9 }, "invalid-argument", "config.linear_num_key_heads"],
    ["a negative epsilon", { ...smallConfig, rms_norm_eps: -1 }, "invalid-argument", "config.rms_norm_eps"],
    ["an activation without a kernel", { ...smallConfig, hidden_act: "gelu" }, "unsupported", "config: hidden_act"],
    ["a gate without a kernel", { ...smallConfig, output_gate_type: "tanh" }, "unsupported", "config: output_gate_type"],
    ["an array", [], "invalid-argument", "config"],
  ];
  test.each(bad)("%s is refused", (_, config, code, argument) => {
    const error = refused(good, { layer: 0, config });
    expect([error.code, error.argument]).toEqual([code, argument]);
  });

  test.each([
    [{ layer_types: ["full_attention", "linear_attention"] }, "invalid-argument"],
    [{ full_attention_interval: 1 }, "invalid-argument"],
    [{ layer_types: [] }, "range"],
    [{ num_hidden_layers: 4, layer_types: null }, undefined],
    [{ layer_types: ["linear_attention"], full_attention_interval: 1 }, undefined],
    [{ full_attention_interval: 4 }, undefined],
  ])("%j decides whether layer 0 is there to load", (more, code) => {
    const config = { ...smallConfig, ...more };
    if (code === undefined) expect(outputOf(good, { config })).toEqual(expected);
    else expect(refused(good, { layer: 0, config }).code).toBe(code as ErrorCode);
  });

  test("messages are in our own words", () => {
    for (const [, config] of bad) expect(refused(good, { layer: 0, config }).message).not.toMatch(/Invalid|received|Too /);
    const { linear_key_head_dim: _, ...without } = smallConfig;
    expect(refused(good, { layer: 0, config: without }).message).toContain("expected a multiple of 8 in 8..256, got none");
    expect(refused(good, { layer: 0, config: { ...smallConfig, layer_types: 3 } }).expected).toBe("an array of strings");
  });

  test("another kind of model is named", () => {
    const llama = { model_type: "llama", hidden_size: 4096, num_attention_heads: 32, num_hidden_layers: 32, rms_norm_eps: 1e-5 };
    const error = refused(good, { layer: 0, config: llama });
    expect([error.code, error.argument]).toEqual(["invalid-argument", "config"]);
    expect(error.message).toContain("a Gated DeltaNet model");
    expect(error.message).toContain('a model_type of "llama"');
    const path = newPath("config.json");
    writeFileSync(path, JSON.stringify({ ...llama, model_type: undefined }));
    expect(refused(good, { layer: 0, config: path }).message).toContain("neither these nor a model_type");
  });

  test("a layer beyond the model's last is out of bounds", () => {
    for (const more of [{ num_hidden_layers: 24 }, { layer_types: Array(24).fill("linear_attention") }]) {
      const error = refused(good, { layer: 99, config: { ...smallConfig, ...more } });
      expect(error).toBeInstanceOf(BoundsError);
      expect([error.code, error.argument, error.expected, error.received]).toEqual(["range", "layer", "0..23", "99"]);
    }
  });

  test("files that are no configuration", () => {
    const path = newPath("config.json");
    for (const text of ["", "{", "null", "[]", "3"]) {
      writeFileSync(path, text);
      const error = refused(good, { layer: 0, config: path });
      expect([error.code, error.argument]).toEqual(["file", path]);
    }
    writeFileSync(path, "version https://git-lfs.github.com/spec/v1\n");
    expect(refused(good, { layer: 0, config: path }).message).toContain("git-lfs pointer");
    expect(refused(good, { layer: 0, config: folder }).code).toBe("file");
    expect(refused(good, { layer: 0, config: join(folder, "none.json") }).code).toBe("file");
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

  const strangers = ["in_proj_qkv.weight_scale_inv", "out_proj.scales", "in_proj_z.bias", "conv1d.weight.zeros"];
  test.each(strangers)("with %s beside", (name) => {
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
    expect(new Set(out.data)).toEqual(new Set([0])); // zeros in, zeros out: what failed before left nothing behind
  });

  test("out may be hidden itself: the projections are done when it is written", () => {
    using layer = GatedDeltaNet.load(device, good, { layer: 0 });
    using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
    using hidden = device.tensorFrom("f32", [1, 48], Array.from({ length: 48 }, (_, i) => Math.sin(i)));
    pool.run([pool.allocate()], (step) => layer.decode({ hidden, out: hidden, step }));
    device.wait();
    expect(hidden.data).toEqual(expected);
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
