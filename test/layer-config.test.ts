/** Configurations of layers: the places where they may be, and the refused ones. */
import { afterAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BoundsError, Device, GatedDeltaNet } from "../lib/index.ts";
import type { ErrorCode } from "../lib/index.ts";
import { scratch } from "./support/files.ts";
import { loadingOn, randomWeights, smallConfig, writeLayer } from "./support/layers.ts";
import { Random } from "./support/random.ts";

const { folder, newPath } = scratch();
const device = Device.open();
afterAll(() => device[Symbol.dispose]());
const { outputOf, refused } = loadingOn(device);
const weights = randomWeights(new Random(21), smallConfig, "f32");
const good = writeLayer(smallConfig, weights, "f32");
const expected = outputOf(good);
const { hidden_size: _, ...withoutHidden } = smallConfig;

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
      gateDims: "head", gateBound: undefined, betaForm: "sigmoid", projections: "joint",
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
