/** Folders of mixtures of experts: the forms of their experts, their configurations, and refused ones. `verify` tests their numbers. */
import { afterAll, describe, expect, spyOn, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { openCheckpoint } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/write.ts";
import type { QwenLayer } from "../../lib/model/families/qwen-layers.ts";
import { loadModelWeights } from "../../lib/model/load-weights.ts";
import type { LoadedModel } from "../../lib/model/load-weights.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { Mixture } from "../../lib/model/model-weights.ts";
import { parseModelConfig } from "../../lib/model/parse-config.ts";
import { readModel, writeChanged, zeros } from "../support/changed-models.ts";
import { runBun } from "../support/children.ts";
import type { ModelParts } from "../support/changed-models.ts";
import { openDevice, thrownBy } from "../support/devices.ts";
import { eachExpert, stackedExperts } from "../support/expert-forms.ts";
import { scratch } from "../support/files.ts";
import { rejection } from "../support/models.ts";

const device = openDevice(1);
afterAll(() => device.close());
const { newPath } = scratch();
const folderOf = (name: string) => join(import.meta.dir, "../golden/models", name);
const moe = readModel(folderOf("qwen3_5_moe"));
const next = readModel(folderOf("qwen3_next"));
const mlx = readModel(folderOf("qwen3_5_moe-mlx"));

type Change = (parts: ModelParts) => void;
const folder = (change: Change, base = moe) => writeChanged(newPath("model"), base, change);

async function loaded<T>(path: string, use: (model: LoadedModel) => T): Promise<T> {
  const model = await loadModelWeights(device, path);
  using _ = model.weights;
  return use(model);
}

const bytesOf = ({ data }: { readonly data: unknown }) => {
  const { buffer, byteOffset, byteLength } = data as Uint8Array;
  return new Uint8Array(buffer, byteOffset, byteLength);
};
const mixtureOf = ({ weights }: LoadedModel, layer: number) => (weights.layers[layer]!.weights as QwenLayer).mlp as Mixture;

describe("experts", () => {
  /** Each expert's gate, up and down, by layer. */
  const expertsOf = (path: string) => loaded(path, (model) => model.weights.layers.map((_, layer) => {
    const { gateUp, down } = mixtureOf(model, layer);
    const [first, second] = gateUp.map(({ weight }) => bytesOf(weight));
    const count = down.weight.shape[0]!;
    const part = (bytes: Uint8Array, i: number, n: number) => Buffer.from(bytes.slice((i * bytes.length) / n, ((i + 1) * bytes.length) / n)).toString("base64");
    return Array.from({ length: count }, (_, expert) => [
      second === undefined ? part(first!, 2 * expert, 2 * count) : part(first!, expert, count),
      second === undefined ? part(first!, 2 * expert + 1, 2 * count) : part(second, expert, count),
      part(bytesOf(down.weight), expert, count),
    ]);
  }));

  test("are the same in two tensors, a matrix each, and in three tensors", async () => {
    const expected = await expertsOf(folderOf("qwen3_5_moe"));
    expect(new Set(expected.flat(2)).size).toBe(4 * 8 * 3);
    expect(await expertsOf(folder(eachExpert))).toEqual(expected);
    expect(await expertsOf(folder(stackedExperts))).toEqual(expected);
  });

  test("that have a matrix each become two tensors", async () => {
    await loaded(folderOf("qwen3_next"), (model) => {
      using source = openCheckpoint(folderOf("qwen3_next"));
      for (const [layer] of model.config.layers.entries()) {
        const { gateUp: [gateUp, other], down, router, sharedGate } = mixtureOf(model, layer);
        expect([gateUp!.weight.shape, other, down.weight.shape, router.weight.shape, sharedGate.weight.shape]).toEqual([[8, 128, 128], undefined, [8, 128, 64], [8, 128], [1, 128]]);
        const stored = (...names: string[]) => Buffer.concat(names.map((name) => source.read(`model.layers.${layer}.mlp.experts.${name}_proj.weight`)));
        const experts = Array.from({ length: 8 }, (_, i) => i);
        expect(Buffer.compare(bytesOf(gateUp!.weight), stored(...experts.flatMap((i) => [`${i}.gate`, `${i}.up`])))).toBe(0);
        expect(Buffer.compare(bytesOf(down.weight), stored(...experts.map((i) => `${i}.down`)))).toBe(0);
      }
    });
  });

  test("in 4 bits keep their words, with a router in 8", async () => {
    await loaded(folderOf("qwen3_5_moe-mlx"), (model) => {
      using source = openCheckpoint(folderOf("qwen3_5_moe-mlx"));
      const { gateUp: [gate, up], down, router, shared, sharedGate } = mixtureOf(model, 1);
      for (const [name, matrix] of Object.entries({ "switch_mlp.gate_proj": gate!, "switch_mlp.up_proj": up!, "switch_mlp.down_proj": down, gate: router, "shared_expert.up_proj": shared.up, shared_expert_gate: sharedGate })) {
        for (const part of ["weight", "scales", "biases"] as const) {
          const at = `language_model.model.layers.1.mlp.${name}.${part}`;
          expect(matrix[part]!.shape).toEqual(source.info(at).shape);
          expect(Buffer.compare(bytesOf(matrix[part]!), source.read(at))).toBe(0);
        }
      }
      expect([gate, up, down, router, sharedGate].map((one) => one!.weightFormat)).toEqual(["affine4-g64", "affine4-g64", "affine4-g64", "affine8-g64", "affine8-g64"]);
    });
  });

  test("of a layer that is dense are none", async () => {
    const widths = [["gate_proj", 256, 128], ["up_proj", 256, 128], ["down_proj", 128, 256]] as const;
    const dense: Change = ({ tensors, config }) => {
      config["mlp_only_layers"] = [2];
      for (const name of Object.keys(tensors)) if (name.startsWith("model.layers.2.mlp.")) delete tensors[name];
      for (const [name, rows, columns] of widths) tensors[`model.layers.2.mlp.${name}.weight`] = zeros("BF16", [rows, columns]);
    };
    await loaded(folder(dense, next), ({ config, weights }) => {
      expect([config.experts?.layers, config.intermediateSize]).toEqual([[0, 1, 3], 256]);
      expect(weights.layers.map(({ weights }) => (weights as QwenLayer).mlp.kind)).toEqual(["experts", "experts", "dense", "experts"]);
    });
  });
});

describe("a configuration", () => {
  const parse = (config: object, change: Record<string, unknown> = {}) => parseModelConfig({ ...config, ...change }, { path: undefined, op: "load" }).config;
  const text = moe.config["text_config"] as Record<string, unknown>;

  test("of Qwen3.5", () => {
    const experts = { count: 8, perToken: 3, intermediateSize: 64, sharedIntermediateSize: 64, normalized: true, layers: [0, 1, 2, 3] };
    for (const config of [moe.config, text, { ...moe.config, text_config: { ...text, mlp_only_layers: [], decoder_sparse_step: 2, intermediate_size: 12 } }]) {
      expect(parse(config)).toMatchObject({ family: "qwen3_5_moe", intermediateSize: 0, experts });
    }
  });

  test("of Qwen3-Next", () => {
    const experts = { count: 8, perToken: 2, intermediateSize: 64, sharedIntermediateSize: 64, normalized: true, layers: [0, 1, 2, 3] };
    expect(parse(next.config)).toMatchObject({ family: "qwen3_next", intermediateSize: 0, experts });
    expect(parse(next.config, { norm_topk_prob: null, mlp_only_layers: null, decoder_sparse_step: null, intermediate_size: null }).experts).toEqual(experts);
    expect(parse(next.config, { norm_topk_prob: false }).experts?.normalized).toBe(false);
    const layersOf = (decoder_sparse_step: number, mlp_only_layers: readonly number[]) => parse(next.config, { decoder_sparse_step, mlp_only_layers }).experts?.layers;
    expect([layersOf(2, []), layersOf(1, [1, 9]), layersOf(2, [1]), layersOf(3, [2]), layersOf(5, [])]).toEqual([[1, 3], [0, 2, 3], [3], undefined, undefined]);
    expect(parse(next.config, { decoder_sparse_step: 5 })).toMatchObject({ intermediateSize: 256, experts: undefined });
    expect(thrownBy(() => parse(next.config, { mlp_only_layers: [0], intermediate_size: null })).argument).toBe("config.intermediate_size");
  });

  const refused: [what: string, config: object, change: Record<string, unknown>, code: string, argument: string][] = [
    ["more experts of a token than there are", text, { num_experts_per_tok: 9 }, "invalid-argument", "config.num_experts_per_tok"],
    ["no experts of a token", text, { num_experts_per_tok: 0 }, "invalid-argument", "config.num_experts_per_tok"],
    ["no experts", text, { num_experts: 0 }, "invalid-argument", "config.num_experts"],
    ["half an expert", text, { num_experts: 8.5 }, "invalid-argument", "config.num_experts"],
    ["experts without number", text, { num_experts: null }, "invalid-argument", "config.num_experts"],
    ["more experts than are possible", text, { num_experts: 1e9 }, "invalid-argument", "config.num_experts"],
    ["experts of no width", text, { moe_intermediate_size: 0 }, "invalid-argument", "config.moe_intermediate_size"],
    ["no width of the shared expert", text, { shared_expert_intermediate_size: undefined }, "invalid-argument", "config.shared_expert_intermediate_size"],
    ["weights that are not divided", text, { norm_topk_prob: false }, "unsupported", "config: norm_topk_prob"],
    ["a norm that is no boolean", next.config, { norm_topk_prob: 1 }, "invalid-argument", "config.norm_topk_prob"],
    ["every zeroth layer", next.config, { decoder_sparse_step: 0 }, "invalid-argument", "config.decoder_sparse_step"],
    ["layers that are none", next.config, { mlp_only_layers: [-1] }, "invalid-argument", "config.mlp_only_layers.0"],
    ["experts under another name", text, { n_routed_experts: 8 }, "unsupported", "config: n_routed_experts"],
    ["another activation", next.config, { hidden_act: "gelu" }, "unsupported", "config: hidden_act"],
    ["a dense text model within", moe.config, { text_config: { ...text, model_type: "qwen3_5_text" } }, "unsupported", "config: model_type"],
    ["another mixture", text, { model_type: "qwen3_moe" }, "unsupported", "config: model_type"],
  ];
  test.each(refused)("with %s is refused", (_, config, change, code, argument) => {
    const error = thrownBy(() => parse(config, change));
    expect([error.code, error.argument]).toEqual([code as never, argument]);
  });
});

describe("refused", () => {
  const layer = "model.language_model.layers.1.mlp.";
  const nextLayer = "model.layers.1.mlp.";
  const mlxLayer = "language_model.model.layers.1.mlp.";
  const take = (tensors: Record<string, TensorToWrite>, name: string) => {
    const tensor = tensors[name]!;
    delete tensors[name];
    return tensor;
  };
  const cases: [what: string, base: ModelParts, change: Change, mention: string][] = [
    ["fewer experts than counted", moe, ({ config }) => (config["text_config"]["num_experts"] = 9), "[9, 128], as the configuration says, got [8, 128]"],
    ["wider experts than said", moe, ({ config }) => (config["text_config"]["moe_intermediate_size"] = 32), "[8, 64, 128], as the configuration says, got [8, 128, 128]"],
    ["a wider shared expert than said", moe, ({ config }) => (config["text_config"]["shared_expert_intermediate_size"] = 96), "shared_expert.gate_proj.weight of shape [96, 128]"],
    ["experts whose axes are exchanged", moe, ({ tensors }) => (tensors[`${layer}experts.down_proj`] = zeros("BF16", [8, 64, 128])), "[8, 128, 64], as the configuration says, got [8, 64, 128]"],
    ["no second tensor", moe, ({ tensors }) => take(tensors, `${layer}experts.down_proj`), `${layer}experts.down_proj`],
    ["no first tensor", moe, ({ tensors }) => take(tensors, `${layer}experts.gate_up_proj`), `${layer}experts.gate_up_proj`],
    ["no experts", moe, ({ tensors }) => ["gate_up_proj", "down_proj"].forEach((name) => take(tensors, `${layer}experts.${name}`)), "none of them"],
    ["no router", moe, ({ tensors }) => take(tensors, `${layer}gate.weight`), `${layer}gate.weight`],
    ["no gate of the shared expert", moe, ({ tensors }) => take(tensors, `${layer}shared_expert_gate.weight`), `${layer}shared_expert_gate.weight`],
    ["a gate for each number of it", moe, ({ tensors }) => (tensors[`${layer}shared_expert_gate.weight`] = zeros("BF16", [128, 128])), "[1, 128], as the configuration says, got [128, 128]"],
    ["fused and single experts", moe, ({ tensors }) => (tensors[`${layer}experts.0.down_proj.weight`] = zeros("BF16", [128, 64])), `${layer}experts.down_proj and ${layer}experts.0.down_proj.weight`],
    ["fused and stacked experts", moe, ({ tensors }) => (tensors[`${layer}switch_mlp.up_proj.weight`] = zeros("BF16", [8, 64, 128])), `${layer}experts.down_proj and ${layer}switch_mlp.up_proj.weight`],
    ["a correction of the router", moe, ({ tensors }) => (tensors[`${layer}gate.e_score_correction_bias`] = zeros("F32", [8])), `${layer}gate.e_score_correction_bias`],
    ["a dense MLP next to the experts", moe, ({ tensors }) => (tensors[`${layer}down_proj.weight`] = zeros("BF16", [128, 64])), `${layer}down_proj.weight`],
    ["experts of integers", moe, ({ tensors }) => (tensors[`${layer}experts.down_proj`] = zeros("I32", [8, 128, 64])), "F32, F16 or BF16, got I32"],
    ["a missing expert", next, ({ tensors }) => ["gate", "up", "down"].forEach((name) => take(tensors, `${nextLayer}experts.5.${name}_proj.weight`)), `${nextLayer}experts.5.gate_proj.weight`],
    ["no first expert", next, ({ tensors }) => ["gate", "up", "down"].forEach((name) => take(tensors, `${nextLayer}experts.0.${name}_proj.weight`)), `${nextLayer}experts.0.gate_proj.weight`],
    ["an expert without its down", next, ({ tensors }) => take(tensors, `${nextLayer}experts.7.down_proj.weight`), `${nextLayer}experts.7.down_proj.weight`],
    ["more experts than counted", next, ({ config }) => (config["num_experts"] = 4), "[4, 128], as the configuration says, got [8, 128]"],
    ["more experts than the router has", next, ({ tensors }) => (tensors[`${nextLayer}experts.8.up_proj.weight`] = zeros("BF16", [64, 128])), `${nextLayer}experts.8.up_proj.weight`],
    ["an expert of another width", next, ({ tensors }) => (tensors[`${nextLayer}experts.3.up_proj.weight`] = zeros("BF16", [72, 128])), "[64, 128], as the configuration says, got [72, 128]"],
    ["an expert of another dtype", next, ({ tensors }) => (tensors[`${nextLayer}experts.3.up_proj.weight`] = zeros("F32", [64, 128])), `${nextLayer}experts.3.up_proj: expected bf16, as ${nextLayer}experts.0.gate_proj, got f32`],
    ["experts in a dense layer", next, ({ config }) => (config["mlp_only_layers"] = [1]), `${nextLayer}gate_proj.weight`],
    ["experts without scales", mlx, ({ tensors }) => take(tensors, `${mlxLayer}switch_mlp.up_proj.scales`), `${mlxLayer}switch_mlp.up_proj`],
    ["scales of fewer experts", mlx, ({ tensors }) => (tensors[`${mlxLayer}switch_mlp.up_proj.scales`] = zeros("BF16", [7, 64, 2])), "[8, 64, …], as the configuration says, got [7, 64, 2]"],
    ["experts of other bits than said", mlx, ({ config }) => (config["quantization"]["bits"] = 8), "8 bits in groups of 64, as the configuration says"],
    ["a router of other bits than said", mlx, ({ config }) => delete config["quantization"][`${mlxLayer}gate`], `${mlxLayer}gate of 4 bits in groups of 64, as the configuration says`],
  ];
  test.each(cases)("%s", async (_, base, change, mention) => {
    const error = await rejection(loadModelWeights(device, folder(change, base)));
    expect(["file", "unsupported", "dtype"]).toContain(error.code);
    expect(error.message).toContain(mention);
  });

  test("no tensor, but those of pictures and of the prediction of several tokens", async () => {
    const names = ["mtp.layers.0.mlp.experts.0.gate_proj.weight", "mtp.fc.weight", "mtp.layers.0.mlp.experts.gate_up_proj"];
    const path = folder(({ tensors }) => names.forEach((name) => void (tensors[name] = zeros("BF16", [3]))));
    await loaded(path, ({ skipped }) => expect(skipped.filter((name) => !name.includes(".visual."))).toEqual(names.toSorted()));
  });
});

describe("memory", () => {
  /** 16 experts of 1.5 MB in each of four layers. */
  const large: Change = ({ tensors, config }) => {
    Object.assign(config["text_config"], { num_experts: 16, moe_intermediate_size: 2048 });
    for (const [layer] of config["text_config"]["layer_types"].entries()) {
      const at = `model.language_model.layers.${layer}.mlp.`;
      tensors[`${at}gate.weight`] = zeros("BF16", [16, 128]);
      tensors[`${at}experts.gate_up_proj`] = zeros("BF16", [16, 4096, 128]);
      tensors[`${at}experts.down_proj`] = zeros("BF16", [16, 128, 2048]);
    }
  };

  test.each<[form: string, change: Change]>([["in two tensors", () => {}], ["a matrix each", eachExpert], ["in three tensors", stackedExperts]])("grows by the weights alone: experts %s", (_, change) => {
    const path = folder((parts) => {
      large(parts);
      change(parts);
    });
    const { ok, text } = runBun({}, join(import.meta.dir, "../../bench/model/load.ts"), path);
    expect([ok, text]).toEqual([true, expect.stringContaining("weightMB")]);
    const { weightMB, peakOverBeforeMB } = JSON.parse(text) as Record<string, number>;
    expect(weightMB).toBeGreaterThan(100);
    expect(peakOverBeforeMB).toBeGreaterThan(0.9 * weightMB!);
    expect(peakOverBeforeMB).toBeLessThan(1.05 * weightMB! + 67);
    rmSync(path, { recursive: true });
  }, 60_000);

  test("that the experts do not fit is refused with both numbers before anything is read", async () => {
    const path = folderOf("qwen3_5_moe");
    using source = openCheckpoint(path);
    const weights = source.names.filter((name) => !name.includes("visual")).reduce((sum, name) => sum + source.info(name).bytes, 0);
    let read = 0;
    const load = () => LanguageModel.load(device, path, { states: 1, pages: 1, onProgress: () => read++ });
    using free = spyOn(process, "availableMemory").mockReturnValue(weights - 1);
    const error = await rejection(load());
    expect([error.code, error.expected, error.received]).toEqual(["out-of-memory", expect.stringContaining(`weights ${weights}`), `${weights - 1} bytes`]);
    expect(read).toBe(0);
    free.mockReturnValue(1e9);
    using model = await load();
    expect(model.config.experts?.count).toBe(8);
  });
});
