import { afterAll, describe, expect, test } from "bun:test";
import { Device, GatedDeltaNet, StatePool, linear } from "../lib/index.ts";
import type { FloatDType, Tensor } from "../lib/index.ts";
import { reference } from "./reference/tensor.ts";
import type { Reference } from "./reference/tensor.ts";
import { bitsEqual, bounds, relRms } from "../lib/cli/verify/compare.ts";
import { drive, randomHidden, together } from "./support/drive.ts";
import type { Call } from "./support/drive.ts";
import { goldenFiles, loadLayer } from "./support/golden.ts";
import { expectedOutput, interleaved, loadRandom, randomWeights, smallConfig, writeLayer } from "./support/layers.ts";
import type { LayerWeights, RandomLayerConfig } from "./support/layers.ts";
import { Random } from "./support/random.ts";

const device = Device.open();
afterAll(() => device[Symbol.dispose]());

const flat = (parts: readonly ArrayLike<number>[]) => parts.flatMap((part) => [...(part as Float32Array)]);

/** The float64 result of sequences that start from zero. */
function expected(config: RandomLayerConfig, weights: LayerWeights, hidden: readonly Reference[]): Float64Array {
  const cuSeqlens = hidden.reduce<number[]>((starts, { shape }) => [...starts, starts.at(-1)! + shape[0]!], [0]);
  const packed = reference([cuSeqlens.at(-1)!, config.hidden_size], flat(hidden.map(({ data }) => data)));
  return expectedOutput(config, weights, packed, cuSeqlens).data;
}

describe("against transformers", () => {
  test.each(goldenFiles("layer").map(loadLayer))("$name", (golden) => {
    using layer = GatedDeltaNet.load(device, golden.path, { layer: 0 });
    const { sequences, tokens } = golden;
    const width = layer.config.hiddenSize;
    const hidden = Array.from({ length: sequences }, (_, s) => {
      return reference([tokens, width], golden.hidden.data.subarray(s * tokens * width, (s + 1) * tokens * width));
    });
    const { outputs } = drive(layer, hidden, [together(hidden.map(() => tokens))]);
    expect(relRms(flat(outputs), golden.out.data)).toBeLessThanOrEqual(bounds.layer);
  });
});

describe("against float64", () => {
  const configs: [name: string, config: RandomLayerConfig][] = [
    ["three value heads a key head", smallConfig],
    ["equal heads, sigmoid gate, wide eps", {
      ...smallConfig, linear_num_value_heads: 2, output_gate_type: "sigmoid", rms_norm_eps: 1e-3,
    }],
    ["one key head, two taps", { ...smallConfig, linear_num_key_heads: 1, linear_num_value_heads: 4, linear_conv_kernel_dim: 2 }],
    ["nine taps, hidden of no multiple of 8", { ...smallConfig, hidden_size: 50, linear_conv_kernel_dim: 9 }],
    ["heads of 128", {
      ...smallConfig, linear_num_value_heads: 2, linear_key_head_dim: 128, linear_value_head_dim: 128, output_gate_type: "swish",
    }],
  ];
  const lengths = [5, 0, 1, 17];

  describe.each(["f32", "bf16", "f16"] as const)("%s weights", (dtype) => {
    test.each(configs)("%s", (_, config) => {
      const { layer, weights } = loadRandom(device, config, 1, dtype);
      using __ = layer;
      const hidden = randomHidden(new Random(2), lengths, config.hidden_size);
      const { outputs } = drive(layer, hidden, [together(lengths)]);
      expect(relRms(flat(outputs), expected(config, weights, hidden))).toBeLessThanOrEqual(bounds.layer);
    });
  });

  test.each(["bf16", "f16"] as const)("%s activations are near, and so is their decode", (dtype) => {
    const { layer, weights } = loadRandom(device, smallConfig, 3, dtype, { dtype });
    using _ = layer;
    const hidden = randomHidden(new Random(4), lengths, smallConfig.hidden_size, dtype);
    const { outputs } = drive(layer, hidden, [together(lengths)], "forward", { convDtype: dtype });
    // There are five roundings between input and output: projections, convolution and norm.
    expect(relRms(flat(outputs), expected(smallConfig, weights, hidden))).toBeLessThanOrEqual(8 * bounds[dtype]);
  });
});

describe("equal bits", () => {
  const lengths = [23, 9, 1, 16];
  const hiddenOf = (dtype: FloatDType) => randomHidden(new Random(5), lengths, smallConfig.hidden_size, dtype);
  const cut = (longest: number): Call[] => {
    const calls: Call[] = [];
    for (let at = 0; at < Math.max(...lengths); at += longest) {
      const part = (length: number, sequence: number) => ({ sequence, tokens: Math.min(longest, length - at) });
      calls.push(lengths.map(part).filter(({ tokens }) => tokens > 0));
    }
    return calls;
  };

  describe.each(["f32", "bf16", "f16"] as const)("%s activations", (dtype) => {
    const { layer } = loadRandom(device, smallConfig, 6, "f32", { dtype });
    afterAll(() => layer[Symbol.dispose]());
    const hidden = hiddenOf(dtype);
    const base = drive(layer, hidden, [together(lengths)]);

    const ways: [name: string, calls: Call[], how: "forward" | "decode"][] = [
      ["one sequence a call", lengths.map((tokens, sequence) => [{ sequence, tokens }]), "forward"],
      ["the batch in another order", [[...together(lengths)].reverse()], "forward"],
      ["pieces of seven", cut(7), "forward"],
      ["token by token, separate ops", cut(1), "forward"],
      ["token by token, fused steps", cut(1), "decode"],
      ["a prompt, then fused steps", [...cut(8).slice(0, 1), ...cutFrom(8)], "decode"],
    ];
    test.each(ways)("%s", (_, calls, how) => {
      const result = drive(layer, hidden, calls, how);
      result.outputs.forEach((output, i) => expect(bitsEqual(output, base.outputs[i]!)).toBe(true));
      result.states.forEach((state, i) => expect(bitsEqual(state, base.states[i]!)).toBe(true));
    });
  });

  /** Calls of one token for each sequence that continues after its first `start` tokens. */
  function cutFrom(start: number): Call[] {
    const calls: Call[] = [];
    for (let at = start; at < Math.max(...lengths); at++) {
      calls.push(lengths.flatMap((length, sequence) => (length > at ? [{ sequence, tokens: 1 }] : [])));
    }
    return calls;
  }

  test.each([["bf16", "f32"], ["f16", "bf16"], ["bf16", "f16"]] as const)(
    "%s states, %s activations: the fused step's, call for call", // a narrow state is rounded once per call
    (stateDtype, dtype) => {
      const { layer } = loadRandom(device, smallConfig, 15, "f32", { dtype });
      using _ = layer;
      const pools = { stateDtype, convDtype: dtype };
      const [separate, fused] = (["forward", "decode"] as const).map((how) => drive(layer, hiddenOf(dtype), cut(1), how, pools));
      separate!.outputs.forEach((output, i) => expect(bitsEqual(output, fused!.outputs[i]!)).toBe(true));
      separate!.states.forEach((state, i) => expect(bitsEqual(state, fused!.states[i]!)).toBe(true));
    },
  );

  test("interleaved projections are the split ones in another order", () => {
    const weights = randomWeights(new Random(7), smallConfig, "bf16");
    using split = GatedDeltaNet.load(device, writeLayer(smallConfig, weights, "bf16"), { layer: 0 });
    using mixed = GatedDeltaNet.load(device, writeLayer(smallConfig, interleaved(smallConfig, weights), "bf16"), { layer: 0 });
    const hidden = hiddenOf("f32");
    const [a, b] = [split, mixed].map((layer) => drive(layer, hidden, [together(lengths)]));
    a!.outputs.forEach((output, i) => expect(bitsEqual(output, b!.outputs[i]!)).toBe(true));
    expect(relRms(flat(b!.outputs), expected(smallConfig, weights, hidden))).toBeLessThanOrEqual(bounds.layer);
  });
});

describe("the core without projections", () => {
  const { layer, weights } = loadRandom(device, smallConfig, 8);
  afterAll(() => layer[Symbol.dispose]());
  const tokens = 6;
  const { keyHeads, valueHeads, keyDim, valueDim, hiddenSize } = layer.config;
  const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
  const hidden = randomHidden(new Random(9), [tokens], hiddenSize);

  /** Projects with this library's own kernel, in place of one of the caller's. */
  function project(input: Tensor, name: string, outFeatures: number): Tensor {
    const weight = weights.get(name)!;
    const out = device.tensor("f32", [input.shape[0]!, outFeatures]);
    device.run(linear({ x: input, weight: device.tensorFrom("f32", weight.shape, weight.data), out }));
    return out;
  }

  test.each([
    ["mix", "[tokens, channels]", 2],
    ["mix", "[tokens, heads, dim]", 3],
    ["mixStep", "[tokens, channels]", 2],
    ["mixStep", "[tokens, heads, dim]", 3],
  ] as const)("%s, z and out as %s", (method, _, rank) => {
    const base = drive(layer, hidden, [[{ sequence: 0, tokens }]]);
    using pool = StatePool.create(device, { slots: 1, layers: 3, ...layer.stateShape });
    using inLayer2 = GatedDeltaNet.load(device, writeLayer(smallConfig, weights, "f32"), { layer: 0, poolLayer: 2 });
    using handle = pool.allocate();
    const output = new Float32Array(tokens * hiddenSize);
    const size = method === "mix" ? tokens : 1;
    for (let at = 0; at < tokens; at += size) {
      const part = hidden[0]!.data.subarray(at * hiddenSize, (at + size) * hiddenSize);
      const input = device.tensorFrom("f32", [size, hiddenSize], part);
      const heads = rank === 3 ? [size, valueHeads, valueDim] : [size, valueHeads * valueDim];
      const out = device.tensor("f32", heads);
      const step = pool.step([handle]);
      device.run(
        ...inLayer2[method]({
          qkv: project(input, "in_proj_qkv.weight", channels),
          z: project(input, "in_proj_z.weight", valueHeads * valueDim).reshape(heads),
          a: project(input, "in_proj_a.weight", valueHeads),
          b: project(input, "in_proj_b.weight", valueHeads),
          out,
          step,
        }),
      );
      const projected = project(out.reshape([size, valueHeads * valueDim]), "out_proj.weight", hiddenSize);
      device.wait();
      for (const unused of [0, 1]) for (const kind of ["state", "conv"] as const) step.wrote(unused, kind);
      step.done();
      output.set(projected.data, at * hiddenSize);
    }
    expect(bitsEqual(output, base.outputs[0]!)).toBe(true);
  });
});
