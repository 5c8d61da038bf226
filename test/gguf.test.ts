/** GGUF files that are correct, and those of other models. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { openGguf } from "../lib/checkpoint/gguf/gguf-checkpoint.ts";
import { ggmlTypes } from "../lib/checkpoint/gguf/types.ts";
import { Device, GatedDeltaNet } from "../lib/index.ts";
import { LanguageModel } from "../lib/model.ts";
import { ggmlFormats } from "./reference/gguf.ts";
import type { GgmlFormat } from "./reference/gguf.ts";
import { runBun } from "./support/children.ts";
import { thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { ggufFiles, logitsOf, refused, tensored, text, tiny, u32, valued } from "./support/gguf-cases.ts";
import type { Values } from "./support/gguf-cases.ts";
import { ggufPath } from "./support/gguf-models.ts";
import { randomBlocks } from "./support/ggml.ts";
import { ggufBytes } from "./support/gguf-writer.ts";
import type { GgufToWrite } from "./support/gguf-writer.ts";
import { Random } from "./support/random.ts";
import { tinyGguf } from "./support/tiny-gguf.ts";

const files = scratch();
const fileOf = ggufFiles(files);
const device = Device.open({ backend: "cpu" });
afterAll(() => device[Symbol.dispose]());

test("the types are ggml's, and those of the reference", () => {
  const types = [...ggmlTypes].map(([type, { stored, elements, bytes, name }]) => ["dtype" in stored ? name.toLowerCase() : stored.weightFormat, { type, elements, bytes }]);
  const reference = Object.entries<GgmlFormat>(ggmlFormats).map(([name, { type, elements, bytes }]) => [name, { type, elements, bytes }]);
  expect(Object.fromEntries(types)).toEqual(Object.fromEntries(reference));
});

describe("a file is read", () => {
  test("with the names, shapes and bytes of its tensors", () => {
    using file = openGguf(fileOf(tiny));
    expect(file.names.toSorted()).toContain("model.layers.0.linear_attn.in_proj_qkv.weight");
    expect(file.info("model.layers.0.linear_attn.conv1d.weight").shape).toEqual([64, 4, 1]);
    expect(file.info("model.layers.1.self_attn.q_proj.weight").shape).toEqual([64, 32]);
    for (const { name, type, data } of tiny.tensors) {
      const known = file.names[tiny.tensors.findIndex((tensor) => tensor.name === name)]!;
      expect([name, file.read(known)]).toEqual([name, data]);
      expect(file.info(known).dtype).toBe(type === 0 ? "F32" : type === 1 ? "F16" : "BF16");
    }
  });

  test("with rows of blocks as rows of bytes, in a format", () => {
    using file = openGguf(ggufPath("qwen35-q4_k_m"));
    const { dtype, weightFormat, shape } = file.info("model.embed_tokens.weight");
    expect({ dtype, weightFormat, shape }).toEqual({ dtype: "U8", weightFormat: "q6_k", shape: [512, 210] });
    expect(thrownBy(() => file.floats("model.embed_tokens.weight")).code).toBe("unsupported");
  });

  test("of version 2, of any alignment, in any order of tensors, and with bytes after the last", async () => {
    const logits = await logitsOf(device, fileOf(tiny));
    const longer = new Uint8Array([...ggufBytes(tiny), ...new Uint8Array(100)]);
    const aligned = (alignment: number) => ({ ...valued({ "general.alignment": u32(alignment) }), alignment });
    const others = [{ ...tiny, version: 2 }, aligned(8), aligned(4096), { ...tiny, tensors: tiny.tensors.toReversed() }, longer];
    for (const other of others) expect(await logitsOf(device, fileOf(other))).toEqual(logits);
  });

  test("with attention in the layers that the file lists, whatever its interval is", async () => {
    const logits = await logitsOf(device, fileOf(tiny));
    const listed = (value: boolean[]): Values => ({ "qwen35.attention.recurrent_layers": { type: "bools", value }, "qwen35.full_attention_interval": u32(4) });
    expect(await logitsOf(device, fileOf(valued(listed([true, false]))))).toEqual(logits);
    const predicting = { "qwen35.block_count": u32(3), "qwen35.nextn_predict_layers": u32(1) };
    expect(await logitsOf(device, fileOf(valued({ ...listed([true, false, false]), ...predicting })))).toEqual(logits);
  });

  test("with any 64-bit integers in keys that nothing reads", async () => {
    const path = fileOf(valued({ "general.seed": { type: "u64", value: 2n ** 64n - 1n }, "a.b": { type: "i64", value: -(2n ** 63n) } }));
    expect(await logitsOf(device, path)).toEqual(await logitsOf(device, fileOf(tiny)));
  });

  test("with settings that say nothing more, as in llama.cpp", async () => {
    const base = valued({ "qwen35.rope.freq_base": { type: "f32", value: 10000 } });
    const logits = await logitsOf(device, fileOf(base));
    const twice = (value: number) => ({ type: "i32s", value: [value, value] }) as const;
    const f32 = (value: number) => ({ type: "f32", value }) as const;
    for (const changes of [
      { "qwen35.rope.freq_base": undefined },
      { "qwen35.attention.key_length": undefined },
      { "qwen35.attention.head_count": twice(2), "qwen35.attention.head_count_kv": twice(1), "qwen35.feed_forward_length": twice(48) },
      { "qwen35.rope.scaling.type": text("linear"), "qwen35.rope.scaling.factor": f32(0), "qwen35.rope.scaling.attn_factor": f32(1) },
      { "qwen35.rope.scaling.type": text("none"), "qwen35.rope.scaling.factor": f32(1), "qwen35.rope.scale_linear": f32(0) },
      { "qwen35.rope.scale_linear": f32(1) },
    ] satisfies Values[]) expect([Object.keys(changes), await logitsOf(device, fileOf(valued(changes, base)))]).toEqual([Object.keys(changes), logits]);
  });

  test("with as many heads of keys as of queries where it does not say", async () => {
    const sizes = ["k", "v"].map((part) => `blk.1.attn_${part}.weight`);
    const random = new Random(6);
    const tensors = tiny.tensors.map((one) => (sizes.includes(one.name) ? { ...one, type: 0, sizes: [32, 32], data: new Uint8Array(Float32Array.from({ length: 1024 }, () => random.normal() / 6).buffer) } : one));
    const [said, unsaid] = [u32(2), undefined].map((value) => fileOf({ ...valued({ "qwen35.attention.head_count_kv": value }), tensors }));
    expect(await logitsOf(device, unsaid!)).toEqual(await logitsOf(device, said!));
  });

  test.each(["f32", "q8_0"])("with the projections of queries, keys and values in one, of %s", async (name) => {
    const format = ggmlFormats[name === "f32" ? "f32" : "q8_0"];
    const random = new Random(5);
    const base = tinyGguf(1, true);
    const parts = ["q", "k", "v"].map((part) => base.tensors.find((one) => one.name === `blk.1.attn_${part}.weight`)!);
    const split = parts.map(({ name: own, sizes: [rows = 0, columns = 0] }) => {
      const data = name === "f32"
        ? new Uint8Array(Float32Array.from({ length: rows * columns }, () => random.normal() / 16).buffer)
        : Uint8Array.from(randomBlocks(random, "q8_0", rows, columns / format.elements).bytes.data);
      return { name: own, type: format.type, sizes: [rows, columns], data };
    });
    const sizes = [split.reduce((sum, one) => sum + one.sizes[0]!, 0), split[0]!.sizes[1]!];
    const joined = { name: "blk.1.attn_qkv.weight", type: format.type, sizes, data: new Uint8Array(Buffer.concat(split.map(({ data }) => data))) };
    const others = base.tensors.filter((one) => !parts.includes(one));
    const logits = await logitsOf(device, fileOf({ ...base, tensors: [...others, ...split] }));
    expect(await logitsOf(device, fileOf({ ...base, tensors: [...others, joined] }))).toEqual(logits);
    expect((await refused(device, fileOf({ ...base, tensors: [...others, joined, split[0]!] }))).message).toContain("blk.1.attn_q.weight");
  });

  test("by its content under another name, and in a folder with a projector or prediction blocks", async () => {
    const logits = await logitsOf(device, fileOf(tiny));
    expect(await logitsOf(device, fileOf(tiny, "sha256-1234"))).toEqual(logits);
    const path = fileOf(tiny);
    for (const name of ["mmproj-F16.gguf", "mtp-model.gguf"]) writeFileSync(join(dirname(path), name), "GGUF");
    expect(await logitsOf(device, dirname(path))).toEqual(logits);
  });

  test("in place, where weights are mapped", async () => {
    const path = fileOf(tiny);
    using model = await LanguageModel.load(device, path, { states: 1, pages: 1, weights: "mapped" });
    using sequence = model.sequence();
    const [result] = await model.run([{ sequence, tokens: [3, 70, 100, 5] }]);
    expect([...result!.logits]).toEqual([...(await logitsOf(device, path))]);
    expect(model.weights.mapped).toBeGreaterThan(model.weights.copied);
  });

  test("by the commands", () => {
    const path = fileOf(tiny);
    for (const [args, found] of [
      [["generate", path, "hi", "--max-tokens", "2"], "tokens/s"],
      [["generate", dirname(path), "5 6", "--ids", "--max-tokens", "2"], "tokens/s"],
      [["verify", path, "--backend", "cpu"], "ok   "],
      [["doctor", path], "states"],
    ] as const) {
      const { ok, text } = runBun({}, "lib/cli/main.ts", ...args);
      expect([args[0], ok, text]).toEqual([args[0], true, expect.stringContaining(found)]);
    }
  });

  test("as layers of its own", () => {
    using layer = GatedDeltaNet.load(device, fileOf(tiny), { layer: 0 });
    expect(layer.config).toMatchObject({ keyHeads: 1, valueHeads: 2, headMap: "tiled" });
  });
});

describe("a split model", () => {
  /** The tiny model in three files, the first without tensors. */
  function split(change: (shards: GgufToWrite[]) => void = () => {}, count = 3): string[] {
    const half = Math.ceil(tiny.tensors.length / 2);
    const own = (no: number) => ({ "split.no": u32(no), "split.count": u32(count), "split.tensors.count": { type: "i32", value: tiny.tensors.length } as const });
    const shards: GgufToWrite[] = [
      { ...valued(own(0)), tensors: [] },
      { values: Object.entries(own(1)), tensors: tiny.tensors.slice(0, half) },
      { values: Object.entries(own(2)), tensors: tiny.tensors.slice(half) },
    ];
    change(shards);
    const folder = files.newPath("split");
    mkdirSync(folder);
    return shards.map((shard, i) => {
      const path = join(folder, `tiny-0000${i + 1}-of-0000${count}.gguf`);
      writeFileSync(path, ggufBytes(shard));
      return path;
    });
  }

  test("is read by the name of any of its files, or of their folder", async () => {
    const logits = await logitsOf(device, fileOf(tiny));
    const paths = split();
    for (const path of [...paths, dirname(paths[0]!)]) expect(await logitsOf(device, path)).toEqual(logits);
    using whole = await LanguageModel.load(device, fileOf(tiny), { states: 1, pages: 1 });
    using parts = await LanguageModel.load(device, paths[1]!, { states: 1, pages: 1 });
    expect(await parts.identity()).toBe(await whole.identity());
    expect(parts.text.encode("hello")).toEqual(whole.text.encode("hello"));
  });

  test.each<[what: string, change: (shards: GgufToWrite[]) => void, mention: string]>([
    ["in the wrong order", (shards) => ([shards[1], shards[2]] = [shards[2]!, shards[1]!]), "split.no 1"],
    ["without a file", (shards) => shards.pop(), "-00003-of-00003.gguf: expected a readable file"],
    ["with a file of another model", (shards) => (shards[2] = { ...shards[2]!, values: [] }), "split.count 3"],
    ["with a tensor twice", (shards) => (shards[2] = { ...shards[2]!, tensors: [...shards[2]!.tensors.slice(1), shards[1]!.tensors[0]!] }), "twice"],
    ["with too few tensors", (shards) => (shards[2] = { ...shards[2]!, tensors: shards[2]!.tensors.slice(1) }), "split.tensors.count"],
  ])("%s is refused", async (_, change, mention) => {
    const error = await refused(device, split(change)[0]!);
    expect([error.code, error.message]).toEqual(["file", expect.stringContaining(mention)]);
  });

  test("under a name that is no part's is refused", async () => {
    const path = fileOf(readFileSync(split()[0]!));
    expect((await refused(device, path)).message).toContain("one of 3 files, as split.count says");
  });
});

describe("other models are refused by name", () => {
  test.each<[what: string, changes: Values, mention: string]>([
    ["another architecture", { "general.architecture": text("llama") }, '"llama"'],
    ["no architecture", { "general.architecture": undefined }, "no general.architecture"],
    ["an adapter", { "general.type": text("adapter") }, "an adapter (LoRA)"],
    ["a projector", { "general.architecture": text("clip") }, "an mmproj file"],
    ["a projector by its type", { "general.type": text("mmproj") }, "an mmproj file"],
    ["an importance matrix", { "general.type": text("imatrix") }, '"imatrix"'],
    ["a scaled rotation", { "qwen35.rope.scaling.type": text("yarn") }, "qwen35.rope.scaling.type"],
    ["a rotation scaled by a factor", { "qwen35.rope.scaling.factor": { type: "f32", value: 4 } }, "qwen35.rope.scaling.factor"],
    ["a rotation scaled by a factor under its old name", { "qwen35.rope.scale_linear": { type: "f32", value: 4 } }, "qwen35.rope.scale_linear: expected 1 or 0, got 4"],
    ["a rotation with scaled attention", { "qwen35.rope.scaling.attn_factor": { type: "f32", value: 2 } }, "qwen35.rope.scaling.attn_factor: expected 1, got 2"],
    ["a rotation with attention scaled by 0", { "qwen35.rope.scaling.attn_factor": { type: "f32", value: 0 } }, "qwen35.rope.scaling.attn_factor"],
    ["a scale of attention", { "qwen35.attention.scale": { type: "f32", value: 0.1 } }, "qwen35.attention.scale"],
  ])("%s", async (_, changes, mention) => {
    const error = await refused(device, fileOf(valued(changes)));
    expect([error.code, error.message]).toEqual(["unsupported", expect.stringContaining(mention)]);
  });

  test("a tensor of another type", async () => {
    const error = await refused(device, fileOf(tensored("blk.0.ffn_up.weight", { type: 16 })));
    expect([error.code, error.message]).toEqual(["unsupported", expect.stringMatching(/blk\.0\.ffn_up\.weight: .*received IQ2_XXS|IQ2_XXS/)]);
  });

  test.each(["blk.0.attn_sinks.weight", "blk.2.attn_norm.weight", "blk.9.attn_norm.weight", "mtp.x", "visual.x", "model.visual.x", "blk.1.ssm_out.weight"])("a tensor that is part of none: %s", async (name) => {
    const extra = { name, type: 0, sizes: [4], data: new Uint8Array(16) };
    const error = await refused(device, fileOf({ ...tiny, tensors: [...tiny.tensors, extra] }));
    expect([error.code, error.message]).toEqual(["unsupported", expect.stringContaining(`: ${name}: `)]);
  });

  test("tensors with the names of transformers and mlx-lm", async () => {
    const error = await refused(device, fileOf(tensored("output_norm.weight", { name: "model.norm.weight" })));
    expect([error.code, error.message]).toEqual(["unsupported", expect.stringContaining(": model.norm.weight: ")]);
  });

  test("more blocks than it says, and more that predict several tokens than it says", async () => {
    const blocks = (...numbers: number[]) => numbers.map((n) => ({ name: `blk.${n}.nextn.eh_proj.weight`, type: 0, sizes: [4], data: new Uint8Array(16) }));
    const predicting = valued({ "qwen35.block_count": u32(3), "qwen35.nextn_predict_layers": u32(1) });
    for (const [file, name] of [
      [valued({ "qwen35.block_count": u32(1) }), "blk.1.attn_norm.weight"],
      [{ ...predicting, tensors: [...tiny.tensors, ...blocks(2, 3)] }, "blk.3.nextn.eh_proj.weight"],
    ] as const) {
      const error = await refused(device, fileOf(file));
      expect([error.code, error.message]).toEqual(["unsupported", expect.stringContaining(`: ${name}: `)]);
    }
  });
});

test("blocks that predict several tokens are left out, whatever they hold", async () => {
  const extra = ["nextn.eh_proj.weight", "attn_q.weight", "something.else"].map((name) => ({ name: `blk.2.${name}`, type: 8, sizes: [2, 32], data: new Uint8Array(68) }));
  const path = fileOf({ ...valued({ "qwen35.block_count": u32(3), "qwen35.nextn_predict_layers": u32(1) }), tensors: [...tiny.tensors, ...extra] });
  using model = await LanguageModel.load(device, path, { states: 1, pages: 1 });
  expect(model.config.layers).toEqual(["gatedDelta", "attention"]);
  expect(model.skipped).toEqual(extra.map(({ name }) => `mtp.${name}`));
  expect(await logitsOf(device, path)).toEqual(await logitsOf(device, fileOf(tiny)));
});
