/** Mixers of architectures other than Qwen's: the accepted configurations and checkpoints, and refused ones. */
import { afterAll, describe, expect, test } from "bun:test";
import { Device, GatedDeltaNet, StatePool } from "../lib/index.ts";
import type { FloatDType } from "../lib/index.ts";
import { bitsEqual, bounds, relRms } from "../lib/cli/verify/compare.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { parseLayerConfig } from "../lib/checkpoint/mixer-config.ts";
import { forwardBoth } from "../lib/layer/gated-delta-net.ts";
import { DraftGroup } from "../lib/states/draft-group.ts";
import { DraftMemory } from "../lib/states/draft-memory.ts";
import { reference } from "./reference/tensor.ts";
import { drive, randomHidden, together } from "./support/drive.ts";
import { thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { Random } from "./support/random.ts";
import { separateOutput, separateWeights, writeMixer, type SeparateShape } from "./support/separate-mixers.ts";

const { newPath } = scratch();
const device = Device.open();
afterAll(() => device[Symbol.dispose]());

const kda = { hidden: 48, keyHeads: 3, valueHeads: 3, keyDim: 16, valueDim: 16, width: 4, gateDims: "key", outputGate: "sigmoid" } as const;
const olmo = { hidden: 48, keyHeads: 2, valueHeads: 6, keyDim: 16, valueDim: 24, width: 3, normEps: 1e-5, outputGate: "silu" } as const;
const kdaKeys = { hidden_size: 48, linear_num_heads: 3, linear_head_dim: 16, linear_conv_kernel_dim: 4, rms_norm_eps: 1e-3 };
const released = { hidden_size: 48, linear_attn_config: { num_heads: 3, head_dim: 16, short_conv_kernel_size: 4 } };
const bailingReleased = {
  model_type: "bailing_hybrid", hidden_size: 48, num_attention_heads: 3, head_dim: 16, short_conv_kernel_size: 4, hidden_act: "silu",
};
const olmoKeys = {
  model_type: "olmo_hybrid", hidden_size: 48, linear_num_key_heads: 2, linear_num_value_heads: 6, linear_key_head_dim: 16,
  linear_value_head_dim: 24, linear_conv_kernel_dim: 3, rms_norm_eps: 0.1,
};

interface Case {
  readonly name: string;
  readonly shape: SeparateShape;
  readonly config: object;
  readonly mixer: string;
  readonly dtype?: FloatDType;
  /** Whether mlx-lm has renamed the convolutions. */
  readonly renamed?: boolean;
}

/** The names that mlx-lm gives convolutions. */
function rename(tensors: Record<string, TensorToWrite>): void {
  for (const name of Object.keys(tensors)) {
    if (!name.includes("_conv1d.")) continue;
    tensors[name.replace("_conv1d.", "_conv.conv.")] = tensors[name]!;
    delete tensors[name];
  }
}

const cases: Case[] = [
  { name: "Kimi Linear", shape: { ...kda, normEps: 1e-3, ranks: { f: 16, g: 16 }, aLogShape: [1, 1, 3, 1] }, config: { model_type: "kimi_linear", ...kdaKeys }, mixer: "self_attn" },
  { name: "Kimi Linear as released", shape: { ...kda, normEps: 1e-5, ranks: { f: 16, g: 16 }, aLogShape: [1, 1, 3, 1] }, config: { model_type: "kimi_linear", ...released }, mixer: "self_attn", dtype: "bf16" },
  {
    name: "Kimi Linear as mlx-lm leaves it",
    shape: { ...kda, normEps: 1e-5, ranks: { f: 16, g: 16 }, aLogShape: [1, 1, 3, 1], convShape: (channels, width) => [channels, width, 1] },
    config: { model_type: "kimi_linear", ...released },
    mixer: "self_attn",
    renamed: true,
  },
  {
    name: "Kimi K3: bounded, a full output gate, another activation of the MLP",
    shape: { ...kda, normEps: 1e-5, gateBound: -5, ranks: { f: 16 } },
    config: {
      model_type: "kimi_k3",
      text_config: {
        model_type: "kimi_linear", hidden_size: 48, hidden_act: "situ",
        linear_attn_config: { ...released.linear_attn_config, gate_lower_bound: -5, kda_layers: [1, 2], full_attn_layers: [3] },
      },
    },
    mixer: "self_attn",
  },
  { name: "GLM-5-next", shape: { ...kda, normEps: 1e-3, gateBound: -4, ranks: { f: 8, g: 24 } }, config: { model_type: "glm5_next", text_config: { model_type: "glm5_next_text", ...kdaKeys, linear_lower_bound: -4 } }, mixer: "self_attn" },
  { name: "GLM-5-next, the usual bound", shape: { ...kda, normEps: 1e-5, gateBound: -5, ranks: { f: 16, g: 16 } }, config: { model_type: "glm5_next_text", ...released }, mixer: "self_attn" },
  { name: "GLM-5-next, unbounded", shape: { ...kda, normEps: 1e-3, ranks: { f: 16, g: 16 } }, config: { model_type: "glm5_next_text", ...kdaKeys, linear_lower_bound: null }, mixer: "self_attn" },
  { name: "Bailing hybrid", shape: { ...kda, normEps: 1e-3, gateBound: -3, output: "dense" }, config: { model_type: "bailing_hybrid", ...kdaKeys, kda_lower_bound: -3, kda_safe_gate: true, hidden_act: "silu" }, mixer: "attention" },
  { name: "Bailing hybrid as released, low ranks", shape: { ...kda, normEps: 1e-6, gateBound: -5, ranks: { f: 16, g: 16 }, convShape: (channels, width) => [channels, width] }, config: bailingReleased, mixer: "self_attn" },
  { name: "Bailing hybrid, unbounded", shape: { ...kda, normEps: 1e-3 }, config: { model_type: "bailing_hybrid", ...kdaKeys, kda_lower_bound: -3, kda_safe_gate: false }, mixer: "attention", dtype: "f16" },
  { name: "OLMo hybrid", shape: { ...olmo, betaForm: "2-sigmoid" }, config: olmoKeys, mixer: "linear_attn" },
  { name: "OLMo hybrid without negative eigenvalues", shape: olmo, config: { ...olmoKeys, linear_allow_neg_eigval: false }, mixer: "linear_attn" },
  { name: "OLMo hybrid with mlx-lm's axes", shape: { ...olmo, betaForm: "2-sigmoid", convShape: (channels, width) => [channels, width, 1] }, config: { ...olmoKeys, linear_allow_neg_eigval: true }, mixer: "linear_attn" },
];

describe("against float64", () => {
  const lengths = [5, 1, 17];
  test.each(cases)("$name", ({ shape, config, mixer, dtype = "f32", renamed }) => {
    const weights = separateWeights(new Random(3), shape, dtype);
    const path = writeMixer(newPath("mixer"), config, weights, dtype, `model.layers.1.${mixer}.`, renamed ? rename : undefined);
    using layer = GatedDeltaNet.load(device, path, { layer: 1 });
    const hidden = randomHidden(new Random(4), lengths, 48);
    const cuSeqlens = lengths.reduce<number[]>((starts, length) => [...starts, starts.at(-1)! + length], [0]);
    const packed = reference([cuSeqlens.at(-1)!, 48], hidden.flatMap(({ data }) => [...data]));
    const whole = drive(layer, hidden, [together(lengths)]);
    const outputs = whole.outputs.flatMap((part) => [...part]);
    expect(relRms(outputs, separateOutput(shape, weights, packed, cuSeqlens).data)).toBeLessThanOrEqual(bounds.layer);
    // One token after another, through the fused step.
    const steps = Array.from({ length: 17 }, (_, at) => lengths.flatMap((length, sequence) => (length > at ? [{ sequence, tokens: 1 }] : [])));
    const stepped = drive(layer, hidden, steps, "decode");
    stepped.outputs.forEach((output, i) => expect(bitsEqual(output, whole.outputs[i]!)).toBe(true));
    stepped.states.forEach((state, i) => expect(bitsEqual(state, whole.states[i]!)).toBe(true));
  });
});

test("drafts: what is committed is what steps would have given", () => {
  const { shape, config, mixer } = cases[0]!;
  const weights = separateWeights(new Random(3), shape, "f32");
  using layer = GatedDeltaNet.load(device, writeMixer(newPath("mixer"), config, weights, "f32", `layers.0.${mixer}.`), { layer: 0 });
  const hidden = randomHidden(new Random(5), [7], 48);
  using pool = StatePool.create(device, { slots: 2, layers: 1, ...layer.stateShape });
  using handle = pool.allocate();
  using given = device.tensorFrom("f32", [7, 48], hidden[0]!.data);
  using out = device.tensor("f32", [7, 48]);
  const draft = pool.draft([handle], [7]);
  device.run(...layer.forward({ hidden: given, out, draft }));
  draft.commit([4]);
  device.wait();
  const base = drive(layer, [reference([4, 48], hidden[0]!.data.subarray(0, 4 * 48))], [together([4])]);
  expect(bitsEqual(out.data.slice(0, 4 * 48), base.outputs[0]!)).toBe(true);
  expect(bitsEqual(pool.state(0).slice(handle.slot, handle.slot + 1).toFloat32(), base.states[0]!)).toBe(true);
});

test.each([["a head", 10, 1], ["a head", 10, 3], ["a key dimension", 0, 1], ["a key dimension", 0, 3]] as const)(
  "gates of %s: steps and drafts in one pass have the bits that each has alone",
  (_, at, stepTokens) => {
    const { shape, config, mixer } = cases[at]!;
    const weights = separateWeights(new Random(3), shape, "f32");
    using layer = GatedDeltaNet.load(device, writeMixer(newPath("mixer"), config, weights, "f32", `layers.0.${mixer}.`), { layer: 0 });
    // Two sequences step, and three verify; all have read four tokens before.
    const counts = [stepTokens, stepTokens, 4, 2, 5];
    const accepted = [stepTokens, stepTokens, 3, 0, 5];
    const hidden = randomHidden(new Random(5), counts.map((count) => 4 + count), 48);
    using pool = StatePool.create(device, { slots: 5, layers: 1, ...layer.stateShape });
    using memory = new DraftMemory(pool, { rows: 12, dtype: "f32", perKey: shape.gateDims === "key" });
    const handles = counts.map(() => pool.allocate());
    const rowsOf = (starts: readonly number[], ends: readonly number[]) =>
      device.tensorFrom("f32", [ends.reduce((sum, end, i) => sum + end - starts[i]!, 0), 48], hidden.flatMap(({ data }, i) => [...data.subarray(48 * starts[i]!, 48 * ends[i]!)]));
    const zeros = counts.map(() => 0);
    const fours = counts.map(() => 4);
    const first = rowsOf(zeros, fours);
    pool.run(handles, (step) => layer.forward({ hidden: first, out: device.tensor("f32", [20, 48]), cuSeqlens: [0, 4, 8, 12, 16, 20], step }));
    const given = rowsOf(fours, counts.map((count) => 4 + count));
    const out = device.tensor("f32", given.shape);
    using group = new DraftGroup(pool, memory, handles.slice(2), counts.slice(2));
    expect([memory.free, group.tokens]).toEqual([1, 11]);
    pool.run(handles.slice(0, 2), (step) =>
      layer[forwardBoth]({ hidden: given, out, step, cuSeqlens: Int32Array.of(0, stepTokens, 2 * stepTokens), decode: stepTokens === 1, drafts: group }));
    // Each ends separately, in any order.
    for (const i of [1, 2, 0]) group.drafts[i]!.commit([accepted[2 + i]!]);
    device.wait();
    expect(memory.free).toBe(12);
    let row = 0;
    for (const [i, handle] of handles.entries()) {
      const tokens = 4 + counts[i]!;
      const cold = (count: number) => drive(layer, [reference([count, 48], hidden[i]!.data.subarray(0, 48 * count))], [together([count])]);
      expect(bitsEqual(out.data.slice(48 * row, 48 * (row += counts[i]!)), cold(tokens).outputs[0]!.subarray(4 * 48))).toBe(true);
      expect(bitsEqual(pool.state(0).slice(handle.slot, handle.slot + 1).toFloat32(), cold(4 + accepted[i]!).states[0]!)).toBe(true);
    }
  },
);

describe("where a mixer may be", () => {
  const { shape, config, mixer } = cases[6]!;
  const weights = separateWeights(new Random(6), shape, "f32");
  const roots = ["model.layers.2.", "model.language_model.layers.2.", "language_model.model.layers.2.", "language_model.layers.2.", "layers.2."];
  const outputOf = (prefix: string) => {
    using layer = GatedDeltaNet.load(device, writeMixer(newPath("mixer"), config, weights, "f32", prefix), { layer: 2 });
    return drive(layer, randomHidden(new Random(7), [3], 48), [together([3])]).outputs[0]!;
  };
  const expected = outputOf("layers.2.");
  test.each(roots)("%s", (root) => expect(outputOf(`${root}${mixer}.`)).toEqual(expected));
});

/** Convolutions as transformers saves OLMo's joint one: in three by `torch.chunk`, whatever the channels of queries, keys and values. */
function chunk(tensors: Record<string, TensorToWrite>): number[] {
  const names = ["q", "k", "v"].map((one) => Object.keys(tensors).find((name) => name.endsWith(`.${one}_conv1d.weight`))!);
  const joint = names.flatMap((name) => [...(tensors[name]!.data as Float32Array)]);
  const [channels, taps] = [joint.length / olmo.width, olmo.width];
  const most = Math.ceil(channels / 3);
  return names.map((name, i) => {
    const data = Float32Array.from(joint.slice(i * most * taps, (i + 1) * most * taps));
    tensors[name] = { dtype: "F32", shape: [data.length / taps, 1, taps], data };
    return data.length / taps;
  });
}

describe("OLMo's convolutions in the three parts that transformers saves", () => {
  test.each<[heads: number, keyDim: number, valueHeads: number, valueDim: number, parts: number[]]>([
    [2, 16, 2, 24, [38, 38, 36]],
    [2, 8, 2, 16, [22, 22, 20]],
    [1, 8, 1, 16, [11, 11, 10]],
    [2, 16, 2, 40, [48, 48, 48]],
  ])("%d key heads of %d, %d value heads of %d", (keyHeads, keyDim, valueHeads, valueDim, parts) => {
    const shape: SeparateShape = { ...olmo, keyHeads, keyDim, valueHeads, valueDim, betaForm: "2-sigmoid" };
    const config = { ...olmoKeys, linear_num_key_heads: keyHeads, linear_key_head_dim: keyDim, linear_num_value_heads: valueHeads, linear_value_head_dim: valueDim };
    const weights = separateWeights(new Random(8), shape, "f32");
    const outputOf = (change?: (tensors: Record<string, TensorToWrite>) => void) => {
      using layer = GatedDeltaNet.load(device, writeMixer(newPath("mixer"), config, weights, "f32", "model.layers.0.linear_attn.", change), { layer: 0 });
      return drive(layer, randomHidden(new Random(9), [5], 48), [together([5])]).outputs[0]!;
    };
    expect(outputOf((tensors) => expect(chunk(tensors)).toEqual(parts))).toEqual(outputOf());
  });
});

describe("checkpoints that are refused", () => {
  const { shape, config, mixer } = cases[0]!;
  const weights = separateWeights(new Random(6), shape, "f32");
  const prefix = `model.layers.1.${mixer}.`;
  const refused = (change: Parameters<typeof writeMixer>[5]) =>
    thrownBy(() => GatedDeltaNet.load(device, writeMixer(newPath("mixer"), config, weights, "f32", prefix, change), { layer: 1 }));

  test.each([...weights.keys()])("%s missing", (name) => {
    // Without its first half, a low-rank projection is read as a full one, and the other half is then unexpected.
    const error = refused((tensors) => void delete tensors[prefix + name]);
    expect(error.code).toBe("file");
    expect(error.message).toContain(name.replace("_a_proj", "_proj"));
  });

  test.each([...weights.keys()])("%s of another shape", (name) => {
    const error = refused((tensors) => {
      const wrong = tensors[prefix + name]!.shape.with(name === "A_log" ? 2 : 0, 7);
      tensors[prefix + name] = { dtype: "F32", shape: wrong, data: new Float32Array(wrong.reduce((a, b) => a * b, 1)) };
    });
    expect(error.code).toBe("file");
    // Then the ranks of the two halves differ.
    expect(error.message).toContain(name.replace("_a_proj", "_b_proj"));
  });

  test.each(["q_proj.bias", "f_proj.weight", "g_proj.weight", "q_norm.weight", "k_conv1d.bias", "dense.bias", "rotary_emb.inv_freq"])(
    "with %s, which the mixer does not have",
    (name) => {
      const error = refused((tensors) => void (tensors[prefix + name] = { dtype: "F32", shape: [1], data: new Float32Array(1) }));
      expect([error.code, error.argument?.endsWith(prefix + name)]).toEqual(["unsupported", true]);
    },
  );

  test("convolutions of different dtypes", () => {
    const name = `${prefix}v_conv1d.weight`;
    const error = refused((tensors) => void (tensors[name] = { ...tensors[name]!, dtype: "BF16", data: new Uint16Array(48 * 4) }));
    expect([error.code, error.argument?.endsWith(name)]).toEqual(["dtype", true]);
  });
});

describe("configurations", () => {
  const place = { path: undefined, op: "GatedDeltaNet.load" };
  const { linear_num_heads: _, ...headless } = kdaKeys;
  test.each([
    ["a missing size", { model_type: "kimi_linear", ...headless }, "invalid-argument", "config.linear_num_heads"],
    ["a size of another type", { model_type: "kimi_linear", ...released, linear_attn_config: { num_heads: "3" } }, "invalid-argument", "config.linear_attn_config.num_heads"],
    ["a nested configuration that is none", { model_type: "kimi_linear", linear_attn_config: 3, hidden_size: 48 }, "invalid-argument", "config.linear_attn_config"],
    ["a bound that is none", { model_type: "glm5_next", ...kdaKeys, linear_lower_bound: 5 }, "invalid-argument", "config.linear_lower_bound"],
    ["a bound that vLLM alone reads", { model_type: "glm5_next", ...kdaKeys, linear_attn_config: { lower_bound: -2 } }, "unsupported", "config: linear_attn_config.lower_bound"],
    ["a head that no kernel has", { ...bailingReleased, head_dim: 12 }, "invalid-argument", "config.head_dim"],
    ["an activation without a kernel", { model_type: "glm5_next", ...kdaKeys, hidden_act: "gelu" }, "unsupported", "config: hidden_act"],
    ["the same of OLMo", { ...olmoKeys, hidden_act: "gelu" }, "unsupported", "config: hidden_act"],
    ["heads that do not divide", { ...olmoKeys, linear_num_value_heads: 5 }, "invalid-argument", "config.linear_num_value_heads"],
    ["an attention layer, from layer_types", { model_type: "kimi_linear", ...kdaKeys, layer_types: ["full_attention"] }, "invalid-argument", "layer"],
    ["an attention layer, from kda_layers, which count from 1", { model_type: "kimi_linear", ...released, linear_attn_config: { ...released.linear_attn_config, kda_layers: [2] } }, "invalid-argument", "layer"],
    ["an attention layer of Bailing", { ...bailingReleased, layer_group_size: 1 }, "invalid-argument", "layer"],
    ["no such layer", { model_type: "glm5_next", ...kdaKeys, layer_types: [] }, "range", "layer"],
  ] as const)("%s", (_, config, code, argument) => {
    const error = thrownBy(() => parseLayerConfig(config, 0, place));
    expect([error.code, error.argument]).toEqual([code, argument]);
  });

  // The values are those of `linear_lower_bound` in transformers 5.24's Glm5NextTextConfig.
  test.each<[own: object, nested: object | null | undefined, bound: number | undefined]>([
    [{}, undefined, -5],
    [{}, { safe_gate: false }, -5],
    [{}, { lower_bound: -5 }, -5],
    [{}, { gate_lower_bound: null }, -5],
    [{}, { gate_lower_bound: null, safe_gate: false }, undefined],
    [{}, { gate_lower_bound: null, safe_gate: null }, undefined],
    [{}, { gate_lower_bound: -3, lower_bound: -3, safe_gate: false }, -3],
    [{ linear_lower_bound: null }, undefined, undefined],
    [{ linear_lower_bound: null }, null, undefined],
    [{ linear_lower_bound: null }, {}, -5],
    [{ linear_lower_bound: null }, { safe_gate: true }, -5],
    [{ linear_lower_bound: null }, { safe_gate: false }, undefined],
    [{ linear_lower_bound: null }, { safe_gate: null }, undefined],
    [{ linear_lower_bound: null }, { gate_lower_bound: -3 }, -3],
    [{ linear_lower_bound: -4 }, { safe_gate: false }, -4],
    [{ linear_lower_bound: -4 }, { gate_lower_bound: -3 }, -3],
    [{ linear_lower_bound: -4 }, { gate_lower_bound: null }, -5],
    [{ linear_lower_bound: -4 }, { gate_lower_bound: null, safe_gate: true }, -5],
    [{ linear_lower_bound: -4 }, { gate_lower_bound: null, safe_gate: false }, undefined],
  ])("GLM-5-next with %j and %j nested has the bound %p", (own, nested, bound) => {
    const config = { model_type: "glm5_next_text", ...kdaKeys, ...own, ...(nested !== undefined && { linear_attn_config: nested }) };
    expect(parseLayerConfig(config, 0, place).gateBound).toBe(bound);
  });

  test("Qwen3.5 has SiLU gates whatever a configuration says; others have what it says", () => {
    const { model_type: _, ...sizes } = olmoKeys;
    const gateOf = (model_type: string | undefined) => parseLayerConfig({ ...sizes, output_gate_type: "sigmoid", model_type }, 0, place).outputGate;
    const types = ["qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next", "qwen4", undefined];
    expect(types.map(gateOf)).toEqual(["silu", "silu", "silu", "silu", "sigmoid", "sigmoid", "sigmoid"]);
    expect(parseLayerConfig({ model_type: "qwen3_5", text_config: { ...sizes, output_gate_type: "sigmoid" } }, 0, place).outputGate).toBe("silu");
  });
});
