/** Which models are the same: by their identity, and by the sessions that they accept. */
import { afterAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Device } from "../../lib/index.ts";
import { FileError } from "../../lib/errors.ts";
import { LanguageModel, Session } from "../../lib/model.ts";
import { writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { encode } from "../../lib/tensor/dtype.ts";
import { readModel, renamed, writeChanged, zeros } from "../support/changed-models.ts";
import type { ModelParts } from "../support/changed-models.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { identityByHand } from "../support/identities.ts";
import { rejection, textOf, tinyFolder } from "../support/models.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();
const options = { states: 2, pages: { count: 8, tokens: 8 } };
const golden = (name: string) => join(import.meta.dir, "../golden/models", name);
const open = (folder: string) => LanguageModel.load(device, folder, options);

const plain = readModel(tinyFolder());
const quantised = readModel(golden("qwen3_5-mlx-mixed"));

/** The same tensor except for one bit. */
function flipped({ dtype, shape, data }: TensorToWrite, at: number): TensorToWrite {
  const view = data as Uint8Array;
  const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  const copy = Buffer.from(bytes);
  copy[at]! ^= 1;
  return { dtype, shape, data: copy };
}

/** A change of one bit of a tensor whose name ends with `end`. */
const bit = (end: string, at = 0) => ({ tensors }: ModelParts): void => {
  const name = Object.keys(tensors).find((one) => one.endsWith(end))!;
  tensors[name] = flipped(tensors[name]!, at);
};

const lastOf = (parts: ModelParts, end: string): number => {
  const tensor = Object.entries(parts.tensors).find(([name]) => name.endsWith(end))![1];
  return (tensor.data as Uint8Array).byteLength - 1;
};

const differences: Record<string, [ModelParts, (parts: ModelParts) => void]> = {
  "a mixer's projection": [plain, bit("linear_attn.in_proj_qkv.weight", 100)],
  "a mixer's convolution": [plain, bit("linear_attn.conv1d.weight")],
  "a mixer's A_log": [plain, bit("linear_attn.A_log")],
  "a mixer's dt_bias": [plain, bit("linear_attn.dt_bias")],
  "a mixer's norm": [plain, bit("linear_attn.norm.weight")],
  "an output projection that is not tied": [plain, bit("lm_head.weight", 64)],
  "a norm of the queries": [plain, bit("self_attn.q_norm.weight")],
  "the bytes of a matrix behind the first 4096": [plain, bit("mlp.down_proj.weight", 4096)],
  "the last byte of the embedding": [plain, bit("embed_tokens.weight", lastOf(plain, "embed_tokens.weight"))],
  "a scale": [quantised, bit("mlp.gate_proj.scales")],
  "a bias of a group": [quantised, bit("mlp.gate_proj.biases", lastOf(quantised, "mlp.gate_proj.biases"))],
  "packed words": [quantised, bit("linear_attn.out_proj.weight", 77)],
  "a number of the configuration": [plain, ({ config }) => void (config["rms_norm_eps"] = 2e-6)],
  "the rotation's base": [plain, ({ config }) => void (config["rope_parameters"] = { ...config["rope_parameters"], rope_theta: 10001 })],
  "how many positions there are": [plain, ({ config }) => void (config["max_position_embeddings"] = 4096)],
  "the names of the tensors": [plain, (parts) => void (parts.tensors = renamed(parts.tensors, (name) => name.replace("model.", "model.language_model.")))],
  "an element type of the same values": [plain, ({ tensors }) => {
    const name = "model.layers.0.linear_attn.dt_bias";
    tensors[name] = { dtype: "F32", shape: tensors[name]!.shape, data: encode("f32", [0.5, -1, 2]) };
  }],
  "the tensors' order of layers": [plain, ({ tensors }) => {
    const [a, b] = ["model.layers.0.mlp.up_proj.weight", "model.layers.2.mlp.up_proj.weight"] as const;
    [tensors[a], tensors[b]] = [tensors[b]!, tensors[a]!];
  }],
};

describe("another model, in which differs", () => {
  const saved = new Map<ModelParts, Promise<{ identity: string; path: string }>>();
  /** A saved session of an unchanged model. */
  const sessionOf = (base: ModelParts) => {
    let promise = saved.get(base);
    if (promise === undefined) saved.set(base, (promise = (async () => {
      using model = await open(writeChanged(files.newPath("model"), base));
      using session = model.session().append(textOf(1, 9));
      await session.logits();
      const path = files.newPath("session");
      await session.save(path);
      return { identity: await model.identity(), path };
    })()));
    return promise;
  };

  test.each(Object.entries(differences))("%s", async (_, [base, change]) => {
    const { identity, path } = await sessionOf(base);
    using other = await open(writeChanged(files.newPath("other"), base, change));
    expect(await other.identity()).not.toBe(identity);
    const error = await rejection(Session.load(other, path));
    expect(error).toBeInstanceOf(FileError);
    expect(error.message).toBe(`Session.load: ${path}: expected a session of this model, got one of another model`);
    expect([other.freeStates, other.freePages]).toEqual([2, 8]);
  });

  test("an element type, of a whole model", async () => {
    using wide = await open(tinyFolder({ dtype: "f32" }));
    using narrow = await open(tinyFolder({ dtype: "bf16" }));
    expect(await wide.identity()).not.toBe(await narrow.identity());
  });
});

describe("the same model", () => {
  const same: Record<string, (parts: ModelParts) => void> = {
    "in another folder": () => {},
    "with a tower that is not read": ({ tensors }) => void (tensors["visual.patch.weight"] = zeros("F32", [3])),
    "that ends its texts by other tokens, and says more of itself": ({ config }) => Object.assign(config, { eos_token_id: [3, 4], transformers_version: "5.0.0", torch_dtype: "bfloat16" }),
    "whose configuration has another order and other words for the same": (parts) => {
      const { rms_norm_eps: eps, ...rest } = parts.config;
      parts.config = { rms_norm_eps: eps, ...rest, hidden_act: "swish" };
    },
  };

  test.each(Object.entries(same))("%s", async (_, change) => {
    using one = await open(writeChanged(files.newPath("one"), plain));
    using other = await open(writeChanged(files.newPath("other"), plain, change));
    expect(await other.identity()).toBe(await one.identity());
    using session = one.session().append(textOf(2, 7));
    const logits = await session.logits();
    const path = files.newPath("session");
    await session.save(path);
    using loaded = await Session.load(other, path);
    expect([...(await loaded.logits())]).toEqual([...logits]);
  });

  test("in other files", async () => {
    const folder = files.newPath("shards");
    mkdirSync(folder);
    const names = Object.keys(plain.tensors);
    const map: Record<string, string> = {};
    for (let i = 0; i < 3; i++) {
      const own = names.filter((__, at) => at % 3 === i);
      for (const name of own) map[name] = `part-${i}.safetensors`;
      writeSafetensors(join(folder, `part-${i}.safetensors`), Object.fromEntries(own.map((name) => [name, plain.tensors[name]!])));
    }
    writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
    writeFileSync(join(folder, "config.json"), JSON.stringify(plain.config));
    using whole = await open(writeChanged(files.newPath("one"), plain));
    using sharded = await open(folder);
    expect(await sharded.identity()).toBe(await whole.identity());
  });

  test("with a copy of the embedding that it does not read", async () => {
    const folder = tinyFolder({ tied: true });
    const parts = readModel(folder);
    using one = await open(folder);
    using other = await open(writeChanged(files.newPath("copy"), parts, ({ tensors }) => void (tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]!)));
    expect(other.skipped).toEqual(["lm_head.weight"]);
    expect(await other.identity()).toBe(await one.identity());
  });

  test("whatever its dtypes of activations, states and pages, which a session's file is compared in by itself", async () => {
    using one = await open(tinyFolder());
    using other = await LanguageModel.load(device, tinyFolder(), { ...options, dtype: "bf16", pages: { count: 8, tokens: 8, dtype: "f32" } });
    expect(await other.identity()).toBe(await one.identity());
    using session = one.session().append(textOf(2, 7));
    await session.logits();
    const path = files.newPath("session");
    await session.save(path);
    expect((await rejection(Session.load(other, path))).message).toContain("dtypes");
  });
});

describe("the identity", () => {
  test("is what the documentation says, also of tensors of many chunks in two Workers", async () => {
    const change = { tied: true, vocabulary: 120_001 };
    using large = await open(tinyFolder(change)); // an embedding of 19 200 160 bytes
    expect(await large.identity()).toBe(identityByHand(tinyFolder(change), large.config));
    for (const name of ["qwen3_5-bf16", "qwen3_5-mlx-mixed"]) {
      using model = await open(golden(name));
      expect(await model.identity()).toBe(identityByHand(golden(name), model.config, model.skipped));
    }
  });

  test("of int8 activations has the settings that the guide names", async () => {
    const guide = readFileSync(join(import.meta.dir, "../../docs/states.md"), "utf8");
    const settings: object = JSON.parse(`{${/(`"activations": "int8"`\s+and `"int8Meaning": \d+`)/.exec(guide)![1]!.replaceAll("`", "").replace(/\s+and /, ", ")}}`);
    const folder = golden("qwen3_5-mlx-mixed");
    using cpu = Device.open("cpu");
    using model = await LanguageModel.load(cpu, folder, { ...options, activations: "int8" });
    expect(await model.identity()).toBe(identityByHand(folder, model.config, model.skipped, settings));
  });

  test("of golden models stays what it was: with another one their saved sessions are refused", async () => {
    using model = await open(golden("qwen3_5-bf16"));
    using packed = await open(golden("qwen3_5-mlx-mixed"));
    expect([await model.identity(), await packed.identity()]).toEqual([
      "7f03af2209fc52ffd0369bb8ee0b2ed0a091abb31fed0f8c969f31ea9828a159",
      "5f477ae6d68ef949c9c21e6f357595961cdc30ca11d13327be6f44b99f4b6261",
    ]);
  });

  test("is the folder's that was loaded, wherever the program goes", async () => {
    const folder = files.newPath("model");
    cpSync(tinyFolder(), folder, { recursive: true });
    const before = process.cwd();
    try {
      process.chdir(join(folder, ".."));
      using model = await open(folder.slice(folder.lastIndexOf("/") + 1));
      process.chdir("/");
      expect(await model.identity()).toBe(identityByHand(folder, model.config));
    } finally {
      process.chdir(before);
    }
  });
});
