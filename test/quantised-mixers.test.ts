/** Mixers with projections that MLX quantised, against float64 over the weights that they stand for. */
import { describe, expect, test } from "bun:test";
import { GatedDeltaNet } from "../lib/index.ts";
import type { FloatDType, GatedDeltaError } from "../lib/index.ts";
import { bitsEqual, bounds, relRms } from "../lib/cli/verify/compare.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import { dequantiseMicro, microFormats } from "./reference/micro.ts";
import type { MicroName } from "./reference/micro.ts";
import { dequantise } from "./reference/quantised.ts";
import type { Quantised } from "./reference/quantised.ts";
import { reference, rows } from "./reference/tensor.ts";
import type { Reference } from "./reference/tensor.ts";
import { onEachBackend } from "./support/backends.ts";
import { thrownBy } from "./support/devices.ts";
import { drive, randomHidden, together } from "./support/drive.ts";
import { scratch } from "./support/files.ts";
import { expectedOutput, prefixOf, randomWeights, tensorsOf } from "./support/layers.ts";
import type { RandomLayerConfig } from "./support/layers.ts";
import { microNames, microTensors, randomMicro } from "./support/micro.ts";
import { bitWidths, groupSizes, randomQuantised } from "./support/quantised.ts";
import { quantisedTensors } from "./support/quantised-files.ts";
import { Random } from "./support/random.ts";
import { separateOutput, separateWeights, type SeparateShape } from "./support/separate-mixers.ts";

const { newPath } = scratch();
const config: RandomLayerConfig = {
  hidden_size: 128,
  linear_num_key_heads: 2,
  linear_num_value_heads: 4,
  linear_key_head_dim: 32,
  linear_value_head_dim: 32,
  linear_conv_kernel_dim: 4,
};
const modules = ["in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"];
const prefix = prefixOf(0);
const lengths = [9, 1];

/** A layer whose modules are quantised, and the weights that they stand for. */
function quantisedLayer(bits: number, group: number, format: FloatDType, only: readonly string[] = modules) {
  const random = new Random(bits * group);
  const weights = new Map(randomWeights(random, config, format));
  const tensors = tensorsOf(weights, format, prefix);
  const parts = new Map<string, Quantised>();
  for (const module of only) {
    const { shape } = weights.get(`${module}.weight`)!;
    const quantised = randomQuantised(random, [shape[0]!, shape[1]!], bits, group, format);
    parts.set(module, quantised);
    weights.set(`${module}.weight`, dequantise(quantised));
    Object.assign(tensors, quantisedTensors(prefix + module, quantised, format));
  }
  return { weights, tensors, parts };
}

/** The same with a micro-scaled form, or none, for each module. */
function microLayer(formOf: (module: string) => MicroName | undefined) {
  const random = new Random(17);
  const weights = new Map(randomWeights(random, config, "bf16"));
  const tensors = tensorsOf(weights, "bf16", prefix);
  for (const module of modules) {
    const form = formOf(module);
    if (form === undefined) continue;
    const { shape } = weights.get(`${module}.weight`)!;
    const micro = randomMicro(random, form, [shape[0]!, shape[1]!]);
    weights.set(`${module}.weight`, dequantiseMicro(micro));
    Object.assign(tensors, microTensors(prefix + module, micro));
  }
  return { weights, tensors };
}

/** The settings for a form in a configuration. */
const settingsOf = (mode: MicroName) => ({ mode, bits: microFormats[mode].bits, group_size: microFormats[mode].group });

function write(tensors: Readonly<Record<string, TensorToWrite>>, more: object = {}): string {
  const path = newPath("model.safetensors");
  writeSafetensors(path, tensors, { config: JSON.stringify({ ...config, ...more }) });
  return path;
}

onEachBackend("quantised mixers", ({ device, emulated }) => {
  const outputsOf = (path: string, hidden: readonly Reference[], layer = 0): Float32Array[] => {
    using loaded = GatedDeltaNet.load(device, path, { layer });
    return drive(loaded, hidden, [together(lengths)]).outputs;
  };
  const hidden = randomHidden(new Random(8), lengths, 128);
  const packed = reference([10, 128], hidden.flatMap(({ data }) => [...data]));
  const flat = (outputs: readonly Float32Array[]) => outputs.flatMap((output) => [...output]);
  const forms = bitWidths.flatMap((bits) => groupSizes.map((group, i) => [bits, group, (["bf16", "f16", "f32"] as const)[i]!] as const));

  test.each(forms.filter((_, i) => !emulated || i % 4 === 0))("%d bits in groups of %d, %s", (bits, group, format) => {
    const { weights, tensors } = quantisedLayer(bits, group, format);
    const quantization = { bits, group_size: group, mode: "affine" };
    const outputs = outputsOf(write(tensors, { quantization, quantization_config: quantization }), hidden);
    expect(relRms(flat(outputs), expectedOutput(config, weights, packed, [0, 9, 10]).data)).toBeLessThanOrEqual(bounds.layer);
  });

  test.each(microNames)("%s", (mode) => {
    const { weights, tensors } = microLayer(() => mode);
    const outputs = outputsOf(write(tensors, { quantization: settingsOf(mode), quantization_config: settingsOf(mode) }), hidden);
    expect(relRms(flat(outputs), expectedOutput(config, weights, packed, [0, 9, 10]).data)).toBeLessThanOrEqual(bounds.layer);
    const silent = outputsOf(write(tensors), hidden);
    outputs.forEach((output, i) => expect(bitsEqual(output, silent[i]!)).toBe(true));
  });

  test("modules of several modes, as the configuration says for each", () => {
    const { weights, tensors } = microLayer((module) => (module === "out_proj" ? undefined : module === "in_proj_z" ? "mxfp8" : "mxfp4"));
    const { weights: others, tensors: affine } = quantisedLayer(8, 64, "bf16", ["out_proj"]);
    weights.set("out_proj.weight", others.get("out_proj.weight")!);
    for (const name of Object.keys(affine)) if (name.includes("out_proj")) tensors[name] = affine[name]!;
    // An entry without a mode is affine.
    const quantization = { ...settingsOf("mxfp4"), [`${prefix}in_proj_z`]: settingsOf("mxfp8"), [`${prefix}out_proj`]: { bits: 8, group_size: 64 } };
    const outputs = outputsOf(write(tensors, { quantization }), hidden);
    expect(relRms(flat(outputs), expectedOutput(config, weights, packed, [0, 9, 10]).data)).toBeLessThanOrEqual(bounds.layer);
    const wrong = write(tensors, { quantization: { ...quantization, [`${prefix}in_proj_z`]: settingsOf("nvfp4") } });
    const error = thrownBy(() => GatedDeltaNet.load(device, wrong, { layer: 0 }));
    expect([error.code, error.expected, error.received]).toEqual(["file", expect.stringContaining("in_proj_z of 4 bits in groups of 16, nvfp4"), "8 bits in groups of 32, mxfp8"]);
  });

  test("some modules quantised, some not, whatever the configuration says", () => {
    const { weights, tensors } = quantisedLayer(4, 64, "bf16", ["in_proj_qkv", "out_proj"]);
    const outputs = outputsOf(write(tensors, { quantization: { bits: 4, group_size: 64 } }), hidden);
    expect(relRms(flat(outputs), expectedOutput(config, weights, packed, [0, 9, 10]).data)).toBeLessThanOrEqual(bounds.layer);
    const silent = outputsOf(write(tensors), hidden);
    outputs.forEach((output, i) => expect(bitsEqual(output, silent[i]!)).toBe(true));
  });

  test("Qwen3-Next's interleaved projections are the split ones in another order", () => {
    const { tensors, parts } = quantisedLayer(6, 32, "f16");
    const rest = Object.entries(tensors).filter(([name]) => !name.includes("in_proj_"));
    const mixed = { ...Object.fromEntries(rest), ...quantisedTensors(`${prefix}in_proj_qkvz`, interleave(parts, "qkvz"), "f16"), ...quantisedTensors(`${prefix}in_proj_ba`, interleave(parts, "ba"), "f16") };
    const [one, other] = [outputsOf(write(tensors), hidden), outputsOf(write(mixed), hidden)];
    one.forEach((output, i) => expect(bitsEqual(output, other[i]!)).toBe(true));
  });

  test("separate projections of a low rank", () => {
    const shape: SeparateShape = {
      hidden: 128, keyHeads: 2, valueHeads: 2, keyDim: 32, valueDim: 32, width: 4, gateDims: "key", outputGate: "sigmoid", normEps: 1e-5,
      ranks: { f: 32, g: 64 },
    };
    const random = new Random(12);
    const weights = new Map(separateWeights(random, shape, "f16"));
    const own = "model.layers.1.self_attn.";
    const tensors: Record<string, TensorToWrite> = tensorsOf(weights, "f16", own);
    for (const name of [...weights.keys()].filter((key) => key.endsWith("_proj.weight"))) {
      const module = name.slice(0, -".weight".length);
      const { shape: size } = weights.get(name)!;
      const quantised = randomQuantised(random, [size[0]!, size[1]!], 5, 32, "f16");
      weights.set(name, dequantise(quantised));
      Object.assign(tensors, quantisedTensors(own + module, quantised, "f16"));
    }
    const path = newPath("model.safetensors");
    const kimi = { model_type: "kimi_linear", hidden_size: 128, linear_attn_config: { num_heads: 2, head_dim: 32, short_conv_kernel_size: 4 } };
    writeSafetensors(path, tensors, { config: JSON.stringify({ ...kimi, quantization: { bits: 5, group_size: 32 } }) });
    const outputs = outputsOf(path, hidden, 1);
    expect(relRms(flat(outputs), separateOutput(shape, weights, packed, [0, 9, 10]).data)).toBeLessThanOrEqual(bounds.layer);
  });

  if (emulated) return;

  describe("what a configuration says must be true", () => {
    const { tensors } = quantisedLayer(4, 32, "bf16");
    const { tensors: eight } = quantisedLayer(8, 64, "bf16", ["out_proj"]);
    const mixed = { ...tensors, ...eight };
    for (const name of Object.keys(mixed)) if (name.startsWith(`${prefix}in_proj`)) mixed[name] = tensors[name]!;
    const own = { bits: 8, group_size: 64 };
    test.each([
      [{ bits: 4, group_size: 32 }, undefined],
      [{ bits: 8, group_size: 32 }, "in_proj_qkv of 8 bits in groups of 32"],
      [{ bits: 4, group_size: 64 }, "in_proj_qkv of 4 bits in groups of 64"],
      [{ bits: 4, group_size: 32, [`${prefix}out_proj`]: { bits: 3 } }, "out_proj of 3 bits in groups of 32"],
      [{ bits: 8, group_size: 32, [`${prefix}in_proj_qkv`]: { bits: 4 } }, "in_proj_z of 8 bits in groups of 32"],
      [{ bits: "4", group_size: 32 }, "bits to be a number"],
      [{ bits: 4, group_size: 32, mode: "affine" }, undefined],
      [{ bits: 4, group_size: 32, mode: "mxfp4" }, "in_proj_qkv of 4 bits in groups of 32, mxfp4"],
      [{ bits: 4, group_size: 32, [`${prefix}out_proj`]: { mode: "mxfp4" } }, "out_proj of 4 bits in groups of 32, mxfp4"],
    ])("%j", (quantization, expected) => {
      const path = write(tensors, { quantization });
      if (expected === undefined) return GatedDeltaNet.load(device, path, { layer: 0 })[Symbol.dispose]();
      const error = thrownBy(() => GatedDeltaNet.load(device, path, { layer: 0 }));
      expect([error.code, error.expected]).toEqual(["file", expect.stringContaining(expected)]);
    });

    test("modules may have their own", () => {
      const said = { bits: 4, group_size: 32, [`${prefix}out_proj`]: own, [`${prefix}in_proj_a`]: false };
      GatedDeltaNet.load(device, write(mixed, { quantization: said }), { layer: 0 })[Symbol.dispose]();
      const error = thrownBy(() => GatedDeltaNet.load(device, write(mixed, { quantization: { bits: 4, group_size: 32 } }), { layer: 0 }));
      expect(error.expected).toContain("out_proj of 4 bits in groups of 32");
    });
  });

  describe("what does not fit is refused", () => {
    const { tensors } = quantisedLayer(4, 32, "bf16");
    const at = (name: string) => `${prefix}out_proj.${name}`;
    const floats = (dtype: "BF16" | "F32", shape: number[]): TensorToWrite => {
      const size = shape.reduce((a, b) => a * b, 1);
      return { dtype, shape, data: dtype === "F32" ? new Float32Array(size) : new Uint16Array(size) };
    };
    const words = (shape: number[]): TensorToWrite => ({ dtype: "U32", shape, data: new Uint32Array(shape.reduce((a, b) => a * b, 1)) });
    const cases: [what: string, change: (all: Record<string, TensorToWrite>) => void, code: GatedDeltaError["code"], mention: string][] = [
      ["words of no width", (all) => (all[at("weight")] = words([128, 0])), "file", at("weight")],
      ["words of 7 bits", (all) => (all[at("weight")] = words([128, 28])), "file", at("weight")],
      ["words of another rank", (all) => (all[at("weight")] = words([128, 16, 1])), "file", at("weight")],
      ["words of too few rows", (all) => (all[at("weight")] = words([127, 16])), "file", at("weight")],
      ["groups of 16", (all) => ["scales", "biases"].forEach((name) => (all[at(name)] = floats("BF16", [128, 8]))), "file", at("scales")],
      ["no groups", (all) => ["scales", "biases"].forEach((name) => (all[at(name)] = floats("BF16", [128, 0]))), "file", at("scales")],
      ["more biases than scales", (all) => (all[at("biases")] = floats("BF16", [128, 2])), "file", at("biases")],
      ["scales of too few rows", (all) => (all[at("scales")] = floats("BF16", [4, 4])), "file", at("scales")],
      ["biases of another dtype", (all) => (all[at("biases")] = floats("F32", [128, 4])), "dtype", at("biases")],
      ["scales that are integers", (all) => (all[at("scales")] = { dtype: "I32", shape: [128, 4], data: new Int32Array(512) }), "dtype", at("scales")],
      ["no biases, as mxfp4", (all) => delete all[at("biases")], "unsupported", "scales of BF16 without biases"],
      ["micro-scaled words of 5 bits", (all) => {
        delete all[at("biases")];
        all[at("weight")] = words([128, 20]);
        all[at("scales")] = { dtype: "U8", shape: [128, 4], data: new Uint8Array(512) };
      }, "file", at("weight")],
      ["micro-scaled groups of 64", (all) => {
        delete all[at("biases")];
        all[at("scales")] = { dtype: "U8", shape: [128, 2], data: new Uint8Array(256) };
      }, "file", at("scales")],
      ["mxfp8 in groups of 16", (all) => {
        delete all[at("biases")];
        all[at("weight")] = words([128, 32]);
        all[at("scales")] = { dtype: "U8", shape: [128, 8], data: new Uint8Array(1024) };
      }, "unsupported", "8 bits in groups of 16"],
      ["no scales", (all) => delete all[at("scales")], "unsupported", "without scales"],
      ["scales with plain weights", (all) => (all[at("weight")] = floats("BF16", [128, 128])), "unsupported", "scales with a weight of BF16"],
      ["GPTQ's words", (all) => {
        for (const name of ["weight", "scales", "biases"]) delete all[at(name)];
        all[at("qweight")] = { dtype: "I32", shape: [16, 128], data: new Int32Array(2048) };
      }, "unsupported", "GPTQ"],
    ];
    test.each(cases)("%s", (_, change, code, mention) => {
      const all = { ...tensors };
      change(all);
      const error = thrownBy(() => GatedDeltaNet.load(device, write(all), { layer: 0 }));
      expect([error.code, error.message]).toEqual([code, expect.stringContaining(mention)]);
    });
  });
});

/** Split modules' rows, interleaved by key head as Qwen3-Next stores them. */
function interleave(parts: ReadonlyMap<string, Quantised>, which: "qkvz" | "ba"): Quantised {
  const [keyHeads, keyDim, wide, ratio] = [2, 32, 64, 2];
  const pick = (module: string, part: "words" | "scales" | "biases", start: number, size: number) => rows(parts.get(module)![part], start, start + size);
  const all = (part: "words" | "scales" | "biases"): Reference => {
    const pieces: Reference[] = [];
    for (let head = 0; head < keyHeads; head++) {
      if (which === "ba") pieces.push(pick("in_proj_b", part, head * ratio, ratio), pick("in_proj_a", part, head * ratio, ratio));
      else {
        pieces.push(pick("in_proj_qkv", part, head * keyDim, keyDim), pick("in_proj_qkv", part, (keyHeads + head) * keyDim, keyDim));
        pieces.push(pick("in_proj_qkv", part, 2 * keyHeads * keyDim + head * wide, wide), pick("in_proj_z", part, head * wide, wide));
      }
    }
    return reference([pieces.reduce((sum, { shape }) => sum + shape[0]!, 0), pieces[0]!.shape[1]!], pieces.flatMap(({ data }) => [...data]));
  };
  const { bits, group } = parts.get("in_proj_qkv")!;
  return { bits, group, words: all("words"), scales: all("scales"), biases: all("biases") };
}
