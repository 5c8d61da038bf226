/** OLMo hybrid: the forms of its folders, its rotation, and configurations and tensors that are refused. `verify` tests its numbers. */
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { FileError } from "../../lib/errors.ts";
import { LanguageModel, Session } from "../../lib/model.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { parseModelConfig } from "../../lib/model/parse-config.ts";
import { readModel, renamed, writeChanged, zeros } from "../support/changed-models.ts";
import type { ModelParts } from "../support/changed-models.ts";
import { openDevice, thrownBy } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { coldLogits, rejection } from "../support/models.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();
const base = readModel(join(import.meta.dir, "../golden/models/olmo_hybrid"));
const text = [5, 17, 400, 3, 3, 250, 99, 12, 511, 4];

type Change = (parts: ModelParts) => void;
const open = (change: Change = () => {}) => LanguageModel.load(device, writeChanged(files.newPath("model"), base, change), { states: 3, pages: { count: 12, tokens: 8 } });
const logits = async (change?: Change, tokens: readonly number[] = text): Promise<number[]> => {
  using model = await open(change);
  return [...(await coldLogits(model, tokens))];
};

/** Convolutions as released, instead of three equal parts of a joint one: the rows of the queries, of the keys and of the values. */
function releasedConvolutions({ tensors }: ModelParts, axes: (rows: number) => number[] = (rows) => [rows, 1, 4]): void {
  for (const layer of [0, 1, 2]) {
    const names = ["q", "k", "v"].map((one) => `model.layers.${layer}.linear_attn.${one}_conv1d.weight`);
    const joint = Buffer.concat(names.map((name) => tensors[name]!.data as Uint8Array));
    let at = 0;
    for (const [i, rows] of [96, 96, 192].entries()) {
      const bytes = rows * 4 * 2;
      tensors[names[i]!] = { dtype: "BF16", shape: axes(rows), data: new Uint8Array(joint.subarray(at, at + bytes)) };
      at += bytes;
    }
  }
}

const newer = (name: string) => name.replace("attention_layer_norm", "input_layernorm").replace("feedforward_layer_norm", "post_attention_layernorm");

describe("the same logits come from", () => {
  const forms: Record<string, Change> = {
    "the released form": (parts) => {
      releasedConvolutions(parts);
      parts.tensors = renamed(parts.tensors, (name) => (name.includes("layers.3.") ? newer(name) : name));
    },
    "transformers' own names": (parts) => void (parts.tensors = renamed(parts.tensors, newer)),
    "mlx-lm's form": (parts) => {
      releasedConvolutions(parts, (rows) => [rows, 4, 1]);
      parts.tensors = renamed(parts.tensors, (name) => newer(name).replace(/linear_attn|self_attn/, "mixer"));
    },
    "a configuration without sizes that follow from others": ({ config }) => {
      for (const key of ["linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim"]) delete config[key];
      for (const key of ["layer_types", "linear_allow_neg_eigval", "rms_norm_eps"]) config[key] = null;
    },
    "a configuration that ties embeddings, with an output projection that differs": ({ config }) => void (config["tie_word_embeddings"] = true),
  };
  test.each(Object.entries(forms))("%s", async (_, change) => {
    expect(await logits(change)).toEqual(await logits());
  });
});

test("layers without layer_types: attention in every fourth, and in the last of fewer", () => {
  const layersOf = (count: number) => parseModelConfig({ ...base.config, layer_types: null, num_hidden_layers: count }, { path: undefined, op: "load" }).config.layers;
  const [g, a] = ["gatedDelta", "attention"] as const;
  expect([layersOf(2), layersOf(6)]).toEqual([[g, a], [g, g, g, a, g, g]]);
});

describe("the rotation", () => {
  const parse = (change: Record<string, unknown>) => {
    const { rope_parameters: _, ...config } = base.config;
    return parseModelConfig({ ...config, ...change }, { path: undefined, op: "load" }).config.attention;
  };

  test("is that of rope_parameters, of rope_theta, or none where the base is null", () => {
    const turning = { headDim: 32, rotaryDim: 32, ropeTheta: 7e4, gated: false, norm: "projection" } as const;
    expect(parse({ rope_parameters: { rope_theta: 7e4 } })).toMatchObject(turning);
    expect(parse({ rope_theta: 7e4 })).toMatchObject(turning);
    expect(parse({ rope_parameters: null, rope_theta: 7e4 })).toMatchObject(turning);
    expect(parse({ rope_parameters: { rope_type: "default" }, rope_theta: 7e4 })).toMatchObject(turning);
    const still = { rotaryDim: 0, ropeTheta: undefined };
    expect(parse({ rope_parameters: { rope_theta: null, rope_type: "default" } })).toMatchObject(still);
    expect(parse({ rope_parameters: { rope_theta: null }, rope_theta: 7e4 })).toMatchObject(still);
    expect(parse({ rope_parameters: null, rope_theta: null })).toMatchObject(still);
  });

  test("is of the whole head, and not scaled", () => {
    // transformers then rotates by a base of its own.
    for (const none of [{}, { rope_parameters: null }]) expect(thrownBy(() => parse(none)).argument).toBe("config.rope_parameters.rope_theta");
    for (const [change, argument] of [
      [{ rope_parameters: { rope_theta: 1e4, partial_rotary_factor: 0.5 } }, "rope_parameters.partial_rotary_factor"],
      [{ rope_theta: 1e4, partial_rotary_factor: 0.5 }, "partial_rotary_factor"],
      [{ rope_parameters: { rope_theta: 1e4, rope_type: "yarn", factor: 8 } }, "rope_parameters.rope_type"],
      [{ rope_parameters: { rope_theta: 1e4, beta_fast: 32 } }, "rope_parameters.beta_fast"],
      [{ rope_theta: 1e4, rope_scaling: { type: "linear", factor: 2 } }, "rope_scaling"],
    ] as const) {
      const error = thrownBy(() => parse(change));
      expect([error.code, error.argument]).toEqual(["unsupported", `config: ${argument}`]);
    }
  });

  const still: Change = ({ config }) => void (config["rope_parameters"] = { rope_theta: null, rope_type: "default" });

  test("may be none, as in released models", async () => {
    // The last position's first logits, computed in float64 on the stored weights.
    const expected = [-0.4172733, -1.3322727, 2.4857816, -0.7662624, 0.476171, 0.5914656, 0.6228436, -1.575227];
    const last = (await logits(still)).slice((text.length - 1) * 512);
    for (const [i, value] of expected.entries()) expect(last[i]).toBeCloseTo(value, 4);
  });

  test("leaves the first position as it is, and changes later ones", async () => {
    const [turned, unturned] = [await logits(), await logits(still)];
    expect(unturned.slice(0, 512)).toEqual(turned.slice(0, 512));
    for (let row = 1; row < text.length; row++) expect(unturned.slice(row * 512, (row + 1) * 512)).not.toEqual(turned.slice(row * 512, (row + 1) * 512));
  });

  test("or its absence makes another model: a session of one is not one of the other", async () => {
    using turned = await open();
    using still = await open(({ config }) => void Object.assign(config, { rope_parameters: null, rope_theta: null }));
    expect(await turned.identity()).not.toBe(await still.identity());
    using session = still.session().append(text);
    const expected = [...(await session.logits())];
    const path = files.newPath("session");
    await session.save(path);
    using back = await Session.load(still, path);
    expect([...(await back.logits())]).toEqual(expected);
    expect((await rejection(Session.load(turned, path)) as FileError).expected).toBe("a session of this model");
  });
});

describe("refused", () => {
  const configurations: [what: string, change: Record<string, unknown>, code: string, argument: string][] = [
    ["another activation", { hidden_act: "gelu" }, "unsupported", "config: hidden_act"],
    ["biases of attention", { attention_bias: true }, "unsupported", "config: attention_bias"],
    ["a gated attention", { attn_output_gate: true }, "unsupported", "config: attn_output_gate"],
    ["mixers without a gate", { linear_use_gate: false }, "unsupported", "config: linear_use_gate"],
    ["another epsilon of the mixers", { layer_norm_epsilon: 1e-6 }, "unsupported", "config: layer_norm_epsilon"],
    ["pairs that turn side by side", { rope_traditional: true }, "unsupported", "config: rope_traditional"],
    ["clipped projections", { clip_qkv: 8 }, "unsupported", "config: clip_qkv"],
    ["experts", { num_experts: 8 }, "unsupported", "config: num_experts"],
    ["windows", { layer_types: ["linear_attention", "sliding_attention", "linear_attention", "full_attention"] }, "unsupported", "config: layer_types.1"],
    ["no mixers", { layer_types: Array(4).fill("full_attention") }, "unsupported", "config: layer_types"],
    ["a type within another's", { model_type: "qwen3_5", text_config: base.config }, "unsupported", "config: model_type"],
    ["fewer types than layers", { layer_types: ["linear_attention"] }, "invalid-argument", "config.layer_types"],
    ["no size", { hidden_size: null }, "invalid-argument", "config.hidden_size"],
    ["heads that do not divide", { num_key_value_heads: 3 }, "invalid-argument", "config.num_attention_heads"],
    ["heads of a length without a kernel", { num_attention_heads: 3, num_key_value_heads: 3 }, "invalid-argument", "config.num_attention_heads"],
    ["longer heads than any kernel has", { head_dim: 264 }, "invalid-argument", "config.head_dim"],
    ["a length of keys that follows and has no kernel", { linear_num_key_heads: 2, linear_num_value_heads: 2, linear_key_head_dim: null, linear_value_head_dim: 1e3 }, "invalid-argument", "config.linear_value_head_dim"],
    ["keys too long, by what follows", { linear_num_key_heads: 1, linear_key_head_dim: null, hidden_size: 1024 }, "invalid-argument", "config.linear_key_head_dim"],
    ["a base that is none", { rope_parameters: { rope_theta: "1e4" } }, "invalid-argument", "config.rope_parameters.rope_theta"],
    ["a rotation that is none", { rope_parameters: 3 }, "invalid-argument", "config.rope_parameters"],
  ];
  test.each(configurations)("%s", (_, change, code, argument) => {
    const error = thrownBy(() => parseModelConfig({ ...base.config, ...change }, { path: undefined, op: "load" }));
    expect([error.code, error.argument]).toEqual([code as never, argument]);
  });

  const layer = "model.layers.3.";
  const tensors: [what: string, change: (tensors: Record<string, TensorToWrite>) => void, mention: string][] = [
    ["no norm after the MLP", (all) => delete all[`${layer}post_feedforward_layernorm.weight`], `${layer}post_feedforward_layernorm.weight`],
    ["no norm after attention", (all) => delete all[`${layer}feedforward_layer_norm.weight`], `${layer}post_attention_layernorm.weight`],
    ["that norm twice", (all) => void (all[`${layer}post_attention_layernorm.weight`] = zeros("BF16", [128])), `${layer}feedforward_layer_norm.weight`],
    ["a norm before attention", (all) => void (all[`${layer}input_layernorm.weight`] = zeros("BF16", [128])), `${layer}input_layernorm.weight`],
    ["a norm of the queries of a head", (all) => void (all[`${layer}self_attn.q_norm.weight`] = zeros("BF16", [32])), "[128], as the configuration says, got [32]"],
    ["queries with gates", (all) => void (all[`${layer}self_attn.q_proj.weight`] = zeros("BF16", [256, 128])), "[128, 128], as the configuration says, got [256, 128]"],
    ["convolutions whose parts are neither", (all) => void (all["model.layers.0.linear_attn.q_conv1d.weight"] = zeros("BF16", [96, 1, 4])), "got [128, 1, 4]"],
    ["a vision tower", (all) => void (all["model.visual.patch.weight"] = zeros("BF16", [3])), "a dense OLMo hybrid model"],
  ];
  test.each(tensors)("%s", async (_, change, mention) => {
    const error = await rejection(open((parts) => change(parts.tensors)));
    expect(["file", "unsupported"]).toContain(error.code);
    expect(error.message).toContain(mention);
  });

  test("no tensor, but those of the prediction of several tokens", async () => {
    using model = await open(({ tensors }) => void (tensors["mtp.norm.weight"] = zeros("BF16", [128])));
    expect(model.skipped).toEqual(["mtp.norm.weight"]);
  });
});
