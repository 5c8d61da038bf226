/** Folders with wrong or foreign contents: each gives a typed error, and nothing stays allocated. */
import { afterAll, afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { cpSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { tiny } from "../bench/model/model-shape.ts";
import { writeRandomModel } from "../bench/model/random-model.ts";
import { Device, GatedDeltaError } from "../lib/index.ts";
import type { ErrorCode, Tensor } from "../lib/index.ts";
import { loadModelWeights } from "../lib/model/load-weights.ts";
import type { LoadWeightsOptions } from "../lib/model/load-weights.ts";
import { folderOf } from "../lib/model/text/text-files.ts";
import { readModel, writeChanged, zeros } from "./support/changed-models.ts";
import type { ModelParts } from "./support/changed-models.ts";
import { scratch } from "./support/files.ts";

const { newPath } = scratch();
const device = Device.open();
afterAll(() => device[Symbol.dispose]());

const plainFolder = newPath("model");
writeRandomModel(plainFolder, { shape: tiny, form: { dtype: "bf16" }, seed: 4 });
const quantisedFolder = newPath("model");
writeRandomModel(quantisedFolder, { shape: tiny, form: { bits: 4, group: 32, dtype: "bf16" }, seed: 4 });
const shardedFolder = newPath("model");
writeRandomModel(shardedFolder, { shape: { ...tiny, num_hidden_layers: 8 }, form: { dtype: "bf16" }, seed: 4 });
const plain = readModel(plainFolder);
const quantised = readModel(quantisedFolder);

/** Every tensor that the current test has made. */
let made: Tensor[] = [];
const tensorOf = Device.prototype.tensor;
let spy: { mockRestore(): void };
beforeEach(() => {
  made = [];
  spy = spyOn(Device.prototype, "tensor").mockImplementation(function (this: Device, ...args: Parameters<typeof tensorOf>) {
    const tensor = tensorOf.apply(this, args);
    made.push(tensor as Tensor);
    return tensor;
  } as never);
});
afterEach(() => spy.mockRestore());

/** The error of a load that must fail, with nothing left allocated. */
async function refused(folder: unknown, options?: LoadWeightsOptions, on = device): Promise<GatedDeltaError> {
  const error = await loadModelWeights(on, folder as string, options).then(
    (model) => {
      model.weights[Symbol.dispose]();
      throw new Error(`${String(folder)} was loaded`);
    },
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(GatedDeltaError);
  expect((error as GatedDeltaError).message).not.toMatch(/TypeError|RangeError|\bundefined\b|\[object/);
  expect(made.filter(({ disposed }) => !disposed)).toEqual([]);
  return error as GatedDeltaError;
}

const changed = (change: (parts: ModelParts) => void, base = plain) => writeChanged(newPath("model"), base, change);
const configured = (change: (config: Record<string, any>) => void) => changed(({ config }) => change(config));
/** A copy of the sharded model, its files changed. */
function shards(change: (folder: string) => void): string {
  const folder = newPath("model");
  cpSync(shardedFolder, folder, { recursive: true });
  change(folder);
  return folder;
}
const firstShard = "model-00001-of-00002.safetensors";
const secondShard = "model-00002-of-00002.safetensors";
const index = "model.safetensors.index.json";

test("the models that are changed below load", async () => {
  for (const folder of [plainFolder, quantisedFolder, shardedFolder, shards(() => {}), changed(() => {}), changed(() => {}, quantised)]) {
    (await loadModelWeights(device, folder)).weights[Symbol.dispose]();
  }
  expect(made.length).toBeGreaterThan(100);
  expect(made.filter(({ disposed }) => !disposed)).toEqual([]);
});

describe("other models", () => {
  test.each<[what: string, change: (config: Record<string, any>) => void, mention: string]>([
    ["a mixture of experts of another architecture", (config) => Object.assign(config, { model_type: "qwen3_moe", num_experts: 8 }), '"qwen3_moe"'],
    ["experts that the type does not have", (config) => (config["num_experts"] = 64), "num_experts: expected 0 (a dense model has none), got 64"],
    ["experts that are no number", (config) => (config["num_experts"] = "8"), 'num_experts: expected 0 (a dense model has none), got "8"'],
    ["experts under another name", (config) => (config["num_local_experts"] = 8), "num_local_experts"],
    ["llama", (config) => (config["model_type"] = "llama"), '"llama"'],
    ["another text model in a wrapper", (config) => Object.assign(config, { model_type: "qwen3_5", text_config: { ...config, model_type: "kimi_linear" } }), '"kimi_linear"'],
    ["another wrapper", (config) => Object.assign(config, { model_type: "glm5_next", text_config: { ...config } }), '"glm5_next"'],
    ["none that says", (config) => delete config["model_type"], "got none"],
    ["GPTQ", (config) => (config["quantization_config"] = { quant_method: "gptq", bits: 4 }), 'quant_method "gptq"'],
    ["AWQ", (config) => (config["quantization_config"] = { quant_method: "awq", bits: 4 }), 'quant_method "awq"'],
    ["fp8", (config) => (config["quantization_config"] = { quant_method: "fp8", weight_block_size: [128, 128] }), 'quant_method "fp8"'],
    ["a scheme within a wrapper", (config) => Object.assign(config, { model_type: "qwen3_5", text_config: { ...config, quantization_config: { quant_method: "bitsandbytes" } } }), '"bitsandbytes"'],
    ["mxfp6", (config) => (config["quantization"] = { mode: "mxfp6", bits: 6, group_size: 32 }), 'mode "mxfp6"'],
    ["mxfp6 of one module", (config) => (config["quantization"] = { bits: 4, group_size: 32, "model.norm": { mode: "mxfp6" } }), 'mode "mxfp6"'],
    ["a mode that is a number", (config) => (config["quantization"] = { mode: 4, bits: 4, group_size: 32 }), "mode 4"],
    ["another activation", (config) => (config["hidden_act"] = "gelu"), '"gelu"'],
    ["biases", (config) => (config["attention_bias"] = true), "attention_bias"],
    ["attention without its gate", (config) => (config["attn_output_gate"] = false), "attn_output_gate"],
    ["another rotation", (config) => (config["rope_parameters"]["rope_type"] = "yarn"), '"yarn"'],
    ["the same under an older name", (config) => {
      config["rope_scaling"] = { type: "linear", rope_theta: 1e6 };
      delete config["rope_parameters"];
    }, '"linear"'],
    ["layers of another type", (config) => (config["layer_types"][3] = "sliding_attention"), '"sliding_attention"'],
    ["attention alone", (config) => config["layer_types"].fill("full_attention"), "linear_attention"],
  ])("%s", async (_, change, mention) => {
    const error = await refused(configured(change));
    expect([error.code, error.message]).toEqual(["unsupported", expect.stringContaining(mention)]);
    expect(error.message).toContain("expected ");
  });

  test.each(["model.gguf", "model-Q4_K_M.gguf"])("GGUF: a folder with %s", async (name) => {
    const folder = newPath("folder");
    mkdirSync(folder);
    writeFileSync(join(folder, name), "GGUF\x03\0\0\0");
    const error = await refused(folder);
    expect([error.code, error.message]).toEqual(["file", expect.stringContaining(name)]);
    expect((await refused(join(folder, name))).message).toContain("a GGUF file");
  });
});

describe("configurations that lie", () => {
  test.each<[key: string, value: unknown]>([
    ["hidden_size", 256],
    ["hidden_size", 0],
    ["hidden_size", -128],
    ["hidden_size", 1e308],
    ["hidden_size", 128.5],
    ["hidden_size", "128"],
    ["hidden_size", null],
    ["intermediate_size", 512],
    ["intermediate_size", 2 ** 53],
    ["vocab_size", 511],
    ["vocab_size", 2 ** 31],
    ["vocab_size", [512]],
    ["num_hidden_layers", 5],
    ["num_hidden_layers", 1e9],
    ["num_hidden_layers", 65536],
    ["num_attention_heads", 3],
    ["num_attention_heads", 8],
    ["num_key_value_heads", 4],
    ["num_key_value_heads", 0],
    ["head_dim", 32],
    ["head_dim", 512],
    ["head_dim", 12],
    ["max_position_embeddings", 0],
    ["max_position_embeddings", 1e15],
    ["max_position_embeddings", "long"],
    ["rms_norm_eps", "1e-6"],
    ["rms_norm_eps", -1],
    ["layer_types", ["linear_attention"]],
    ["layer_types", "linear_attention"],
    ["layer_types", [1, 2, 3, 4]],
    ["layer_types", ["full_attention", "linear_attention", "linear_attention", "linear_attention"]],
    ["rope_parameters", 3],
    ["rope_parameters", {}],
    ["rope_parameters", { rope_theta: 0 }],
    ["rope_parameters", { rope_theta: "1e6" }],
    ["rope_parameters", { rope_theta: 1e6, partial_rotary_factor: 2 }],
    ["rope_parameters", { rope_theta: 1e6, partial_rotary_factor: 0.05 }],
    ["linear_num_key_heads", 4],
    ["linear_num_value_heads", 3],
    ["linear_num_value_heads", 4096],
    ["linear_key_head_dim", 16],
    ["linear_value_head_dim", 257],
    ["linear_conv_kernel_dim", 3],
    ["linear_conv_kernel_dim", 1e6],
    ["tie_word_embeddings", "yes"],
    ["quantization", { bits: {}, group_size: 64 }],
  ])("%s: %j", async (key, value) => {
    const error = await refused(configured((config) => {
      config[key] = value;
      if (key === "num_hidden_layers") delete config["layer_types"];
    }));
    expect(error.code).toBe("file");
  });

  test("tensors of layers beyond num_hidden_layers are unexpected", async () => {
    const error = await refused(configured((config) => {
      config["num_hidden_layers"] = 3;
      config["layer_types"] = config["layer_types"].slice(0, 3);
    }));
    expect([error.code, error.argument]).toEqual(["unsupported", expect.stringContaining("model.layers.3.")]);
  });

  test.each([[""], ["{"], ["null"], ["[]"], ["3"], ['"text"'], ["{}"], ["\0\0\0"], [`{"a":${"[".repeat(100_000)}`]])("%j for config.json", async (text) => {
    const folder = changed(() => {});
    writeFileSync(join(folder, "config.json"), text);
    expect(["file", "unsupported"]).toContain((await refused(folder)).code);
  });

  test.each([["{"], ['{"eos_token_id":"2"}'], ['{"eos_token_id":[-1]}'], ['{"eos_token_id":[1e300]}'], ['{"eos_token_id":{}}']])("%s for generation_config.json", async (text) => {
    const folder = changed(() => {});
    writeFileSync(join(folder, "generation_config.json"), text);
    expect((await refused(folder)).code).toBe("file");
  });
});

describe("tensors", () => {
  const names = Object.keys(plain.tensors);
  test("each is needed", async () => {
    for (const name of names) {
      const error = await refused(changed(({ tensors }) => delete tensors[name]));
      expect([error.code, error.message]).toEqual(["file", expect.stringContaining(name.replace(/(A_log|embed_tokens\.weight)$/, "$1"))]);
      made = [];
    }
  }, 60_000);

  test("each has one shape", async () => {
    for (const name of names) {
      const { shape } = plain.tensors[name]!;
      for (const wrong of [shape.with(0, shape[0]! + 1), [...shape, 1, 1], shape.toReversed().concat(3), []]) {
        const error = await refused(changed(({ tensors }) => (tensors[name] = zeros("BF16", wrong))));
        expect([error.code, error.message]).toEqual(["file", expect.stringContaining(name)]);
        made = [];
      }
    }
  }, 120_000);

  test.each(["F64", "I32", "F8_E4M3"] as const)("of %s are refused", async (dtype) => {
    for (const name of ["model.embed_tokens.weight", "model.norm.weight", "model.layers.0.linear_attn.A_log", "model.layers.3.mlp.up_proj.weight"]) {
      const error = await refused(changed(({ tensors }) => (tensors[name] = zeros(dtype, tensors[name]!.shape))));
      expect([error.code, error.received]).toEqual(["dtype", dtype]);
    }
  });

  test.each([
    "score.weight",
    "model.layers.0.mlp.experts.0.up_proj.weight",
    "model.layers.0.mlp.gate_proj.weight_scale_inv",
    "model.layers.0.linear_attn.in_proj_qkv.bias",
    "model.layers.3.self_attn.q_proj.bias",
    "model.layers.3.linear_attn.A_log",
    "model.layers.4.input_layernorm.weight",
    "model.layers.01.input_layernorm.weight",
    "model.norm.bias",
    "lm_head.bias",
    "visuals.weight",
    "x.mtp.weight",
    "",
  ])("%j, which nothing wants, is refused by name", async (name) => {
    const error = await refused(changed(({ tensors }) => (tensors[name] = zeros("F32", [1]))));
    expect([error.code, error.argument?.endsWith(`: ${name}`)]).toEqual(["unsupported", true]);
  });

  const module = "language_model.model.layers.1.mlp.down_proj";
  test.each<[what: string, change: (parts: ModelParts) => void, code: ErrorCode]>([
    ["words of another width", ({ tensors }) => (tensors[`${module}.weight`] = { ...zeros("I32", [128, 31]), dtype: "U32" }), "file"],
    ["more groups", ({ tensors }) => ["scales", "biases"].forEach((kind) => (tensors[`${module}.${kind}`] = zeros("BF16", [128, 16]))), "file"],
    ["scales alone", ({ tensors }) => delete tensors[`${module}.biases`], "unsupported"],
    ["biases alone", ({ tensors }) => delete tensors[`${module}.scales`], "unsupported"],
    ["scales of one byte, as mxfp4 has, where it says affine", ({ tensors }) => {
      delete tensors[`${module}.biases`];
      tensors[`${module}.scales`] = { dtype: "U8", shape: [128, 8], data: new Uint8Array(1024) };
    }, "file"],
    ["GPTQ, of which the configuration says nothing", ({ tensors, config }) => {
      delete config["quantization"];
      delete config["quantization_config"];
      for (const kind of ["weight", "biases"]) delete tensors[`${module}.${kind}`];
      for (const kind of ["qweight", "qzeros"]) tensors[`${module}.${kind}`] = zeros("I32", [32, 128]);
    }, "unsupported"],
    ["no words", ({ tensors }) => delete tensors[`${module}.weight`], "file"],
    ["other bits than it says", ({ config }) => (config["quantization"] = { bits: 8, group_size: 32 }), "file"],
    ["other groups than it says", ({ config }) => (config["quantization"] = { bits: 4, group_size: 64 }), "file"],
    ["another width of the model", ({ config }) => (config["text_config"]["hidden_size"] = 96), "file"],
  ])("quantised: %s", async (_, change, code) => {
    expect((await refused(changed(change, quantised))).code).toBe(code);
  });
});

describe("files", () => {
  const said = (folder: string) => JSON.parse(readFileSync(join(folder, index), "utf8")) as { weight_map: Record<string, string> };
  const mapped = (change: (map: Record<string, string>) => void) => shards((folder) => {
    const whole = said(folder);
    change(whole.weight_map);
    writeFileSync(join(folder, index), JSON.stringify(whole));
  });
  const cases: [what: string, folder: () => string][] = [
    ["a shard cut short", () => shards((folder) => truncateSync(join(folder, secondShard), 100_000))],
    ["a shard cut in its header", () => shards((folder) => truncateSync(join(folder, secondShard), 100))],
    ["an empty shard", () => shards((folder) => truncateSync(join(folder, secondShard), 0))],
    ["a shard that is not there", () => shards((folder) => rmSync(join(folder, secondShard)))],
    ["two shards exchanged", () => shards((folder) => {
      renameSync(join(folder, firstShard), join(folder, "x"));
      renameSync(join(folder, secondShard), join(folder, firstShard));
      renameSync(join(folder, "x"), join(folder, secondShard));
    })],
    ["a shard that is a folder", () => shards((folder) => {
      rmSync(join(folder, secondShard));
      mkdirSync(join(folder, secondShard));
    })],
    ["a shard that is a link to itself", () => shards((folder) => {
      rmSync(join(folder, secondShard));
      symlinkSync(secondShard, join(folder, secondShard));
    })],
    ["a shard that is a pointer", () => shards((folder) => writeFileSync(join(folder, secondShard), "version https://git-lfs.github.com/spec/v1\n"))],
    ["an index that names a file outside", () => mapped((map) => (map["model.norm.weight"] = "../x.safetensors"))],
    ["an index that names an absolute path", () => mapped((map) => (map["model.norm.weight"] = "/etc/passwd"))],
    ["an index that promises what a shard lacks", () => mapped((map) => (map["model.norm.weight"] = secondShard))],
    ["an index that leaves a tensor out", () => mapped((map) => delete map["model.norm.weight"])],
    ["an index that is no object", () => shards((folder) => writeFileSync(join(folder, index), "[]"))],
    ["an index that is a link to itself", () => shards((folder) => {
      rmSync(join(folder, index));
      symlinkSync(index, join(folder, index));
    })],
    ["no config.json", () => shards((folder) => rmSync(join(folder, "config.json")))],
    ["a config.json that is a link to itself", () => shards((folder) => {
      rmSync(join(folder, "config.json"));
      symlinkSync("config.json", join(folder, "config.json"));
    })],
    ["a config.json that is a folder", () => shards((folder) => {
      rmSync(join(folder, "config.json"));
      mkdirSync(join(folder, "config.json"));
    })],
    ["an empty folder", () => {
      const folder = newPath("folder");
      mkdirSync(folder);
      return folder;
    }],
    ["a folder that is a link to itself", () => {
      const folder = newPath("folder");
      symlinkSync(folder, folder);
      return folder;
    }],
    ["nothing there", () => newPath("nowhere")],
    ["a file that is none", () => join(dirname(import.meta.path), "model-hostile.test.ts")],
    ["a model's name", () => "Qwen/Qwen3.5-0.8B"],
  ];
  test.each(cases)("%s", async (_, folder) => {
    expect((await refused(folder())).code).toBe("file");
  });

  test.each([[null], [3], [""], [["a"]], [{}]])("%p as a folder", async (folder) => {
    expect((await refused(folder)).code).toBe("invalid-argument");
  });

  test("links in a circle, by the load and by the command", async () => {
    const path = newPath("circle.gguf");
    symlinkSync(path, path);
    expect((await refused(path)).code).toBe("file");
    expect(() => folderOf(path)).not.toThrow();
  });

  test("links to files elsewhere are what a cache of downloads has", async () => {
    const folder = newPath("model");
    mkdirSync(folder);
    for (const name of ["model.safetensors", "config.json"]) symlinkSync(join(plainFolder, name), join(folder, name));
    linkSync(join(plainFolder, "generation_config.json"), join(folder, "generation_config.json"));
    (await loadModelWeights(device, folder)).weights[Symbol.dispose]();
  });
});

describe("a load that is interrupted", () => {
  test("by what onProgress throws", async () => {
    const error = new Error("enough");
    let calls = 0;
    const load = loadModelWeights(device, plainFolder, {
      onProgress: () => {
        if (++calls === 20) throw error;
      },
    });
    expect(await load.then(() => undefined, (reason: unknown) => reason)).toBe(error);
    expect(calls).toBe(20);
    expect(made.length).toBeGreaterThan(20);
    expect(made.filter(({ disposed }) => !disposed)).toEqual([]);
  });

  test("by a file that becomes shorter", async () => {
    const folder = changed(() => {});
    const error = await refused(folder, { onProgress: () => truncateSync(join(folder, "model.safetensors"), 200_000) });
    expect([error.code, error.received]).toEqual(["file", expect.stringContaining("the end of the file")]);
  });

  test.each(["before", "in the middle"])("by the device, closed %s", async (when) => {
    const other = Device.open();
    if (when === "before") other.close();
    const error = await refused(plainFolder, { onProgress: () => other.close() }, other);
    expect(error.code).toBe("disposed");
  });

  test("by the end of its Worker", async () => {
    const wide = newPath("model");
    writeRandomModel(wide, { shape: { ...tiny, vocab_size: 60_000 }, form: { dtype: "f32" }, seed: 5 });
    for (let i = 0; i < 12; i++) {
      const worker = new Worker(new URL("support/loading-worker.ts", import.meta.url));
      const pieces = await new Promise<number>((resolve, reject) => {
        worker.onerror = ({ message }) => reject(new Error(message));
        worker.onmessage = ({ data }: MessageEvent<number>) => {
          if (data > 7 * i) resolve(data);
        };
        worker.postMessage(wide);
      });
      expect(pieces).toBeGreaterThan(0);
      worker.terminate();
    }
    (await loadModelWeights(device, plainFolder)).weights[Symbol.dispose]();
  }, 120_000);
});
