/** Loading whole models: the forms of folders, and that tensors are those of the files. */
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tiny, type ModelShape } from "../bench/model/model-shape.ts";
import { writeRandomModel } from "../bench/model/random-model.ts";
import type { ModelForm } from "../bench/model/random-model.ts";
import { bitsEqual } from "../lib/cli/verify/compare.ts";
import { Device, GatedDeltaNet, StatePool } from "../lib/index.ts";
import type { Tensor } from "../lib/index.ts";
import type { Matrix } from "../lib/checkpoint/matrix.ts";
import type { QwenLayer } from "../lib/model/families/qwen-layers.ts";
import type { DenseMlp } from "../lib/model/model-weights.ts";
import { loadModelWeights } from "../lib/model/load-weights.ts";
import type { LoadedModel, LoadProgress } from "../lib/model/load-weights.ts";
import { openCheckpoint } from "../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../lib/checkpoint/write.ts";
import { readModel, renamed, writeChanged, zeros } from "./support/changed-models.ts";
import type { ModelParts } from "./support/changed-models.ts";
import { randomHidden } from "./support/drive.ts";
import { scratch } from "./support/files.ts";
import { Random } from "./support/random.ts";

const { newPath } = scratch();
const device = Device.open();
afterAll(() => device[Symbol.dispose]());
const golden = join(import.meta.dir, "golden", "models");

function random(form: ModelForm, shape: ModelShape = tiny): string {
  const folder = newPath("model");
  writeRandomModel(folder, { shape, form, seed: 3 });
  return folder;
}

const plain = random({ dtype: "bf16" });
const tied = random({ dtype: "f32" }, { ...tiny, tie_word_embeddings: true });
const quantised = random({ bits: 4, group: 32, dtype: "bf16" });

async function loaded<T>(folder: string, use: (model: LoadedModel) => T | Promise<T>): Promise<T> {
  const model = await loadModelWeights(device, folder);
  using _ = model.weights;
  return await use(model);
}

const bytesIn = ({ data }: TensorToWrite) => {
  const { buffer, byteOffset, byteLength } = data as ArrayBufferView;
  return new Uint8Array(buffer, byteOffset, byteLength);
};
const bytesOf = ({ data }: Tensor) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

/** Every tensor of a model outside the mixers, by its name after the root. */
function tensorsOf({ weights, config }: LoadedModel): Map<string, Tensor> {
  const all = new Map<string, Tensor>();
  const matrix = (name: string, { weight, scales, biases }: Matrix) => {
    all.set(`${name}.weight`, weight);
    if (scales) all.set(`${name}.scales`, scales);
    if (biases) all.set(`${name}.biases`, biases);
  };
  matrix("embed_tokens", weights.embedding);
  if (!config.tied) matrix("lm_head", weights.output);
  all.set("norm.weight", weights.norm);
  weights.layers.forEach((one, i) => {
    const layer = one.weights as QwenLayer;
    const at = `layers.${i}.`;
    all.set(`${at}input_layernorm.weight`, layer.inputNorm);
    all.set(`${at}post_attention_layernorm.weight`, layer.postNorm);
    for (const name of ["gate", "up", "down"] as const) matrix(`${at}mlp.${name}_proj`, (layer.mlp as DenseMlp)[name]);
    if (!layer.attention) return;
    const { query, key, value, output, queryNorm, keyNorm } = layer.attention;
    for (const [name, one] of [["q", query], ["k", key], ["v", value], ["o", output]] as const) matrix(`${at}self_attn.${name}_proj`, one);
    all.set(`${at}self_attn.q_norm.weight`, queryNorm);
    all.set(`${at}self_attn.k_norm.weight`, keyNorm);
  });
  return all;
}

describe("golden models", () => {
  const cases = [
    ["qwen3_5-bf16", "model.", "one-plus-weight", false, 0],
    ["qwen3_5-f32-sharded-tied", "model.language_model.", "one-plus-weight", true, 21],
    ["qwen3_5-mlx-4bit", "language_model.model.", "weight", false, 0],
    ["qwen3_5-mlx-mixed", "language_model.model.", "weight", false, 0],
  ] as const;
  test.each(cases)("%s", async (name, root, normForm, isTied, skipped) => {
    const folder = join(golden, name);
    const progress: LoadProgress[] = [];
    const model = await loadModelWeights(device, folder, { onProgress: (one) => progress.push(one) });
    using weights = model.weights;
    expect([weights.normForm, model.config.tied, model.skipped.length]).toEqual([normForm, isTied, skipped]);
    expect(model.config.eosTokens).toEqual([2, 0]);
    expect(weights.output === weights.embedding).toBe(isTied);
    const types = weights.layers.map(({ mixer }) => (mixer ? "gatedDelta" : "attention"));
    expect(types).toEqual([...model.config.layers]);
    // The k-th mixer uses the k-th layer of a pool.
    const mixers = weights.layers.flatMap(({ mixer }) => mixer ?? []);
    expect(mixers.map(({ poolLayer }) => poolLayer)).toEqual(mixers.map((_, i) => i));
    expect(mixers.map(({ layer }) => layer)).toEqual(types.flatMap((type, i) => (type === "gatedDelta" ? [i] : [])));

    using source = openCheckpoint(folder);
    const stored = (key: string) => (key.startsWith("lm_head") ? root.replace(/model\.(?:language_model\.)?$/, "") + key : root + key);
    for (const [key, tensor] of tensorsOf(model)) {
      expect(tensor.shape).toEqual(source.info(stored(key)).shape);
      expect(Buffer.compare(bytesOf(tensor), source.read(stored(key)))).toBe(0);
    }
    // Everything that is not skipped was read once.
    const wanted = source.names.filter((one) => !model.skipped.includes(one));
    const total = wanted.reduce((sum, one) => sum + source.info(one).bytes, 0);
    expect(progress.at(-1)).toEqual({ bytes: total, total, tensor: expect.any(String), kernels: { ready: 0, total: 0 } });
    expect(progress.every(({ bytes }, i) => bytes >= (progress[i - 1]?.bytes ?? 0))).toBe(true);
    expect(new Set(progress.map(({ tensor }) => tensor))).toEqual(new Set(wanted));
  });

  test("sizes and options", async () => {
    await loaded(join(golden, "qwen3_5-f32-sharded-tied"), ({ config }) => {
      expect(config).toEqual({
        family: "qwen3_5", hiddenSize: 96, intermediateSize: 160, vocabSize: 512, normEps: 1e-6, tied: true, maxPositions: 4096,
        layers: [1, 2].flatMap(() => ["gatedDelta", "gatedDelta", "gatedDelta", "attention"] as const),
        attention: { heads: 4, kvHeads: 2, headDim: 32, gated: true, norm: "head", rotaryDim: 16, ropeTheta: 1000000 },
        mixer: {
          hiddenSize: 96, keyHeads: 2, valueHeads: 4, keyDim: 32, valueDim: 32, convWidth: 4, normEps: 1e-6, outputGate: "silu",
          gateDims: "head", gateBound: undefined, betaForm: "sigmoid", projections: "joint",
        },
        eosTokens: [2, 0],
      });
    });
  });
});

test.each(["qwen3_5-bf16", "qwen3_5-f32-sharded-tied", "qwen3_5-mlx-4bit", "qwen3_5-mlx-mixed"])("the mixers of %s are those that GatedDeltaNet.loadAll loads", async (name) => {
  const alone = GatedDeltaNet.loadAll(device, join(golden, name));
  await loaded(join(golden, name), ({ weights, config }) => {
    const mixers = weights.layers.flatMap(({ mixer }) => mixer ?? []);
    expect(mixers.map(({ layer, poolLayer, config: own }) => [layer, poolLayer, own])).toEqual(alone.map(({ layer, poolLayer, config: own }) => [layer, poolLayer, own]));
    const [hidden] = randomHidden(new Random(1), [5], config.hiddenSize);
    const outputOf = (layer: GatedDeltaNet) => {
      using pool = StatePool.create(device, { slots: 1, layers: mixers.length, ...layer.stateShape });
      using handle = pool.allocate();
      using given = device.tensorFrom("f32", [5, config.hiddenSize], hidden!.data);
      using out = device.tensor("f32", [5, config.hiddenSize]);
      const step = pool.step([handle]);
      device.run(...layer.forward({ hidden: given, out, step }));
      device.wait();
      step.abort();
      return out.data.slice();
    };
    mixers.forEach((mixer, i) => expect(bitsEqual(outputOf(mixer), outputOf(alone[i]!))).toBe(true));
  });
  for (const layer of alone) layer[Symbol.dispose]();
});

describe("where a text model may be", () => {
  const base = readModel(tied);
  const expected = loaded(tied, (model) => new Map([...tensorsOf(model)].map(([name, tensor]) => [name, bytesOf(tensor).slice()])));
  const wrapped = (parts: ModelParts) => {
    const { model_type: _, tie_word_embeddings, ...text } = parts.config;
    parts.config = { model_type: "qwen3_5", tie_word_embeddings, text_config: { ...text, model_type: "qwen3_5_text" }, vision_config: {} };
  };
  const vision = ["visual.patch_embed.proj.weight", "visual.blocks.0.attn.qkv.bias", "mtp.fc.weight", "mtp.layers.0.self_attn.q_proj.weight"];
  test.each([
    ["model.", [], false],
    ["", [], false],
    ["model.language_model.", ["model.", ""], true],
    ["language_model.model.", ["vision_tower.", "language_model."], true],
    ["language_model.", [""], true],
  ] as const)("%s", async (root, extras, inWrapper) => {
    const strangers = extras.flatMap((extra) => vision.map((name) => (extra === "vision_tower." ? extra + name : extra + name)));
    const folder = writeChanged(newPath("model"), base, (parts) => {
      parts.tensors = renamed(parts.tensors, (name) => root + name.slice("model.".length));
      for (const name of strangers) parts.tensors[name] = zeros("F32", [2]);
      if (inWrapper) wrapped(parts);
    });
    await loaded(folder, async (model) => {
      expect([...model.skipped].sort()).toEqual([...strangers].sort());
      for (const [name, tensor] of tensorsOf(model)) expect(Buffer.compare(bytesOf(tensor), (await expected).get(name)!)).toBe(0);
    });
  });

  test("several at once are refused", async () => {
    const folder = writeChanged(newPath("model"), base, ({ tensors }) => (tensors["language_model.embed_tokens.weight"] = zeros("F32", [1])));
    expect(loadModelWeights(device, folder)).rejects.toThrow("several: model.embed_tokens.weight, language_model.embed_tokens.weight");
  });
});

describe("tied embeddings", () => {
  const head = "lm_head.weight";
  const table = "model.embed_tokens.weight";
  const untiedBase = readModel(plain);
  const tiedBase = readModel(tied);
  test("a copy of the embedding is left out, and reported", async () => {
    const folder = writeChanged(newPath("model"), tiedBase, ({ tensors }) => (tensors[head] = tensors[table]!));
    await loaded(folder, ({ config, weights, skipped }) => {
      expect([config.tied, weights.output === weights.embedding, skipped]).toEqual([true, true, [head]]);
    });
  });

  test("a projection of its own is used, whatever the configuration says", async () => {
    const change = {
      "one other byte, the last": (tensor: TensorToWrite) => void (bytesIn(tensor)[bytesIn(tensor).length - 1]! ^= 1),
      "zeros": (tensor: TensorToWrite) => void bytesIn(tensor).fill(0),
    };
    for (const make of Object.values(change)) {
      let own: Uint8Array | undefined;
      const folder = writeChanged(newPath("model"), tiedBase, ({ tensors }) => {
        const copy = structuredClone(tensors[table]!);
        make(copy);
        own = bytesIn(copy);
        tensors[head] = copy;
      });
      await loaded(folder, ({ config, weights, skipped }) => {
        expect([config.tied, weights.output === weights.embedding, skipped]).toEqual([false, false, []]);
        expect(Buffer.compare(bytesOf(weights.output.weight), own!)).toBe(0);
      });
    }
  });

  test("where the whole model and its text model disagree, the checkpoint decides", async () => {
    const wrap = (parts: ModelParts, whole: boolean, text: boolean) => {
      parts.config = { model_type: "qwen3_5", tie_word_embeddings: whole, text_config: { ...parts.config, tie_word_embeddings: text } };
    };
    for (const [whole, text] of [[true, false], [false, true]] as const) {
      const with_ = writeChanged(newPath("model"), untiedBase, (parts) => wrap(parts, whole, text));
      const without = writeChanged(newPath("model"), tiedBase, (parts) => wrap(parts, whole, text));
      expect(await loaded(with_, ({ config }) => config.tied)).toBe(false);
      expect(await loaded(without, ({ config }) => config.tied)).toBe(true);
    }
  });

  test("an untied model without its projection is refused", () => {
    const folder = writeChanged(newPath("model"), untiedBase, ({ tensors }) => delete tensors[head]);
    expect(loadModelWeights(device, folder)).rejects.toThrow('expected a tensor "lm_head.weight"');
  });
});

describe("how norms are stored", () => {
  const base = readModel(plain);
  const moved = (only: (name: string) => boolean) => (parts: ModelParts) => {
    for (const [name, { dtype, shape, data }] of Object.entries(parts.tensors)) {
      if (name.endsWith("conv1d.weight") && only(name)) parts.tensors[name] = { dtype, shape: [shape[0]!, shape[2]!, 1], data };
    }
  };
  test.each([
    ["as transformers does", plain, "one-plus-weight"],
    ["as mlx-lm does, quantised", quantised, "weight"],
    ["as mlx-lm does, not quantised", writeChanged(newPath("model"), base, moved(() => true)), "weight"],
  ] as const)("%s", async (_, folder, form) => {
    expect(await loaded(folder, ({ weights }) => weights.normForm)).toBe(form);
  });

  test("in one way in all layers", () => {
    const folder = writeChanged(newPath("model"), base, moved((name) => name.includes("layers.1.")));
    expect(loadModelWeights(device, folder)).rejects.toThrow("both that of transformers and that of mlx-lm");
  });
});

describe("tokens that end a text", () => {
  const base = readModel(plain);
  test.each([
    [{ eos_token_id: [5, 6, 5] }, { eos_token_id: 7 }, [5, 6, 7]],
    [{ eos_token_id: 5 }, { eos_token_id: [7, 5] }, [5, 7]],
    [{ eos_token_id: null }, { eos_token_id: [7] }, [7]],
    [undefined, { eos_token_id: 7 }, [7]],
    [{}, { text_config: { eos_token_id: 8 } }, [8]],
    [{}, {}, []],
  ] as const)("%j and %j", async (generation, own, expected) => {
    const folder = writeChanged(newPath("model"), base, (parts) => {
      const { eos_token_id: _, ...rest } = parts.config;
      const { text_config: text, ...more } = own as { text_config?: object };
      parts.generation = generation && { ...generation };
      parts.config = text ? { model_type: "qwen3_5", text_config: { ...rest, ...text } } : { ...rest, ...more };
    });
    expect(await loaded(folder, ({ config }) => [...config.eosTokens])).toEqual([...expected]);
  });
});

describe("what may be left out of a configuration", () => {
  const base = readModel(plain);
  const rotation = { rope_type: "default", rope_theta: 10_000_000, partial_rotary_factor: 0.25 };
  test.each<[what: string, change: (config: Record<string, any>) => void]>([
    ["layer_types, for the interval", (config) => {
      delete config["layer_types"];
      config["full_attention_interval"] = 4;
    }],
    ["layer_types and the interval", (config) => delete config["layer_types"]],
    ["rms_norm_eps, hidden_act and attention_bias", (config) => ["rms_norm_eps", "hidden_act", "attention_bias"].forEach((key) => delete config[key])],
    ["rope_type, or under its older name", (config) => (config["rope_parameters"] = { ...rotation, rope_type: undefined, type: "default" })],
    ["the fraction", (config) => (config["rope_parameters"] = { rope_type: "default", rope_theta: 10_000_000 })],
    ["rope_parameters, for what older versions wrote", (config) => {
      delete config["rope_parameters"];
      Object.assign(config, { rope_theta: 10_000_000, partial_rotary_factor: 0.25, rope_scaling: null });
    }],
  ])("%s", async (_, change) => {
    const folder = writeChanged(newPath("model"), base, ({ config }) => change(config));
    const expected = await loaded(plain, ({ config }) => config);
    expect(await loaded(folder, ({ config }) => config)).toEqual(expected);
  });
});

test("pieces are bounded, and other work has its turn between them", async () => {
  const wide = random({ dtype: "f32" }, { ...tiny, vocab_size: 40_000, num_hidden_layers: 1, tie_word_embeddings: true });
  let turns = 0;
  let going = true;
  const turn = () => {
    turns++;
    if (going) setImmediate(turn);
  };
  setImmediate(turn);
  const steps: number[] = [];
  const turnsAt: number[] = [];
  const model = await loadModelWeights(device, wide, {
    onProgress: ({ bytes }) => {
      steps.push(bytes - steps.reduce((a, b) => a + b, 0));
      turnsAt.push(turns);
    },
  });
  going = false;
  model.weights[Symbol.dispose]();
  const table = 40_000 * 128 * 4;
  expect(steps.filter((step) => step > 1024 * 1024).length).toBeGreaterThanOrEqual(Math.ceil(table / (4 * 1024 * 1024)));
  expect(Math.max(...steps)).toBeLessThanOrEqual(4 * 1024 * 1024);
  // A turn of the event loop finishes at most the four pieces that are read at a time.
  const ofTable = turnsAt.filter((_, i) => steps[i]! > 1024 * 1024);
  for (const turn of ofTable) expect(ofTable.filter((other) => other === turn).length).toBeLessThanOrEqual(4);
});

test("a random model is the same for equal options", () => {
  const again = random({ bits: 4, group: 32, dtype: "bf16" });
  for (const name of ["model.safetensors", "config.json"]) expect(readFileSync(join(again, name)).equals(readFileSync(join(quantised, name)))).toBe(true);
});
