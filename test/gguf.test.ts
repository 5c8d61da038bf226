/** GGUF files: what is read from right ones, and the errors of wrong ones. */
import { afterAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Device, GatedDeltaError, GatedDeltaNet } from "../lib/index.ts";
import { LanguageModel } from "../lib/model.ts";
import { openCheckpoint } from "../lib/checkpoint/safetensors.ts";
import { openGguf } from "../lib/checkpoint/gguf/gguf-checkpoint.ts";
import { ggmlTypes } from "../lib/checkpoint/gguf/types.ts";
import { runBun } from "./support/children.ts";
import { thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { asFloats, expectedTexts, ggufPath, partsOf } from "./support/gguf-models.ts";
import { ggufBytes } from "./support/gguf-writer.ts";
import type { GgufTensorToWrite, GgufToWrite, GgufValue } from "./support/gguf-writer.ts";
import { dequantiseGgml, ggmlFormats } from "./reference/gguf.ts";
import type { GgmlFormat } from "./reference/gguf.ts";
import { tinyGguf, tinyTokens } from "./support/tiny-gguf.ts";

const { newPath } = scratch();
const device = Device.open({ backend: "cpu" });
afterAll(() => device[Symbol.dispose]());

const tiny = tinyGguf();

/** A file of these parts or bytes. */
function fileOf(content: GgufToWrite | Uint8Array, name = "model.gguf"): string {
  const path = join(newPath("folder"), name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content instanceof Uint8Array ? content : ggufBytes(content));
  return path;
}

const u32 = (value: number): GgufValue => ({ type: "u32", value });
const text = (value: string): GgufValue => ({ type: "text", value });

/** The tiny model with some values changed, added, or (undefined) left out. */
function valued(changes: Readonly<Record<string, GgufValue | undefined>>, base = tiny): GgufToWrite {
  const kept = base.values.filter(([key]) => !Object.hasOwn(changes, key));
  const added = Object.entries(changes).flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]));
  return { ...base, values: [...kept, ...added] };
}

/** The tiny model with one tensor changed. */
function tensored(name: string, change: Partial<GgufTensorToWrite>): GgufToWrite {
  return { ...tiny, tensors: tiny.tensors.map((tensor) => (tensor.name === name ? { ...tensor, ...change } : tensor)) };
}

async function refused(path: string): Promise<GatedDeltaError> {
  const error = await LanguageModel.load(device, path, { states: 1, pages: 1 }).then(
    (model) => {
      model[Symbol.dispose]();
      throw new Error(`${path} was loaded`);
    },
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(GatedDeltaError);
  return error as GatedDeltaError;
}

async function logitsOf(path: string, tokens: readonly number[] = [3, 70, 100, 5]): Promise<Float32Array> {
  using model = await LanguageModel.load(device, path, { states: 1, pages: 1 });
  using sequence = model.sequence();
  const [result] = await model.run([{ sequence, tokens }]);
  return result!.logits.slice();
}

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
    const logits = await logitsOf(fileOf(tiny));
    const longer = new Uint8Array([...ggufBytes(tiny), ...new Uint8Array(100)]);
    const aligned = (alignment: number) => ({ ...valued({ "general.alignment": u32(alignment) }), alignment });
    const others = [{ ...tiny, version: 2 }, aligned(8), aligned(4096), { ...tiny, tensors: tiny.tensors.toReversed() }, longer];
    for (const other of others) expect(await logitsOf(fileOf(other))).toEqual(logits);
  });

  test("by its content under another name, and in a folder with a projector", async () => {
    const logits = await logitsOf(fileOf(tiny));
    expect(await logitsOf(fileOf(tiny, "sha256-1234"))).toEqual(logits);
    const path = fileOf(tiny);
    writeFileSync(join(dirname(path), "mmproj-F16.gguf"), "GGUF");
    expect(await logitsOf(dirname(path))).toEqual(logits);
  });

  test("in place, where weights are mapped", async () => {
    const path = fileOf(tiny);
    using model = await LanguageModel.load(device, path, { states: 1, pages: 1, weights: "mapped" });
    using sequence = model.sequence();
    const [result] = await model.run([{ sequence, tokens: [3, 70, 100, 5] }]);
    expect([...result!.logits]).toEqual([...(await logitsOf(path))]);
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
  /** The tiny model in three files, the first one without tensors. */
  function split(change: (shards: GgufToWrite[]) => void = () => {}, count = 3): string[] {
    const half = Math.ceil(tiny.tensors.length / 2);
    const own = (no: number) => ({ "split.no": u32(no), "split.count": u32(count), "split.tensors.count": { type: "i32", value: tiny.tensors.length } as const });
    const shards: GgufToWrite[] = [
      { ...valued(own(0)), tensors: [] },
      { values: Object.entries(own(1)), tensors: tiny.tensors.slice(0, half) },
      { values: Object.entries(own(2)), tensors: tiny.tensors.slice(half) },
    ];
    change(shards);
    const folder = newPath("split");
    mkdirSync(folder);
    return shards.map((shard, i) => {
      const path = join(folder, `tiny-0000${i + 1}-of-0000${count}.gguf`);
      writeFileSync(path, ggufBytes(shard));
      return path;
    });
  }

  test("is read by the name of any of its files, or of their folder", async () => {
    const logits = await logitsOf(fileOf(tiny));
    const paths = split();
    for (const path of [...paths, dirname(paths[0]!)]) expect(await logitsOf(path)).toEqual(logits);
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
    const error = await refused(split(change)[0]!);
    expect([error.code, error.message]).toEqual(["file", expect.stringContaining(mention)]);
  });

  test("under a name that is no part's is refused", async () => {
    const path = fileOf(readFileSync(split()[0]!));
    expect((await refused(path)).message).toContain("one of 3 files, as split.count says");
  });
});

describe("other models are refused by name", () => {
  test.each<[what: string, changes: Readonly<Record<string, GgufValue | undefined>>, mention: string]>([
    ["another architecture", { "general.architecture": text("llama") }, '"llama"'],
    ["no architecture", { "general.architecture": undefined }, "no general.architecture"],
    ["an adapter", { "general.type": text("adapter") }, "an adapter (LoRA)"],
    ["a projector", { "general.architecture": text("clip") }, "an mmproj file"],
    ["a projector by its type", { "general.type": text("mmproj") }, "an mmproj file"],
    ["an importance matrix", { "general.type": text("imatrix") }, '"imatrix"'],
    ["a scaled rotation", { "qwen35.rope.scaling.type": text("yarn") }, "qwen35.rope.scaling.type"],
    ["a scale of attention", { "qwen35.attention.scale": { type: "f32", value: 0.1 } }, "qwen35.attention.scale"],
  ])("%s", async (_, changes, mention) => {
    const error = await refused(fileOf(valued(changes)));
    expect([error.code, error.message]).toEqual(["unsupported", expect.stringContaining(mention)]);
  });

  test("a tensor of another type", async () => {
    const error = await refused(fileOf(tensored("blk.0.ffn_up.weight", { type: 16 })));
    expect([error.code, error.message]).toEqual(["unsupported", expect.stringMatching(/blk\.0\.ffn_up\.weight: .*received IQ2_XXS|IQ2_XXS/)]);
  });

  test("a tensor that is part of none", async () => {
    const extra = { name: "blk.0.attn_sinks.weight", type: 0, sizes: [4], data: new Uint8Array(16) };
    const error = await refused(fileOf({ ...tiny, tensors: [...tiny.tensors, extra] }));
    expect([error.code, error.message]).toEqual(["unsupported", expect.stringContaining("blk.0.attn_sinks.weight")]);
  });
});

test("blocks that predict several tokens are left out, whatever they hold", async () => {
  const extra = ["nextn.eh_proj.weight", "attn_q.weight", "something.else"].map((name) => ({ name: `blk.2.${name}`, type: 8, sizes: [2, 32], data: new Uint8Array(68) }));
  const path = fileOf({ ...valued({ "qwen35.block_count": u32(3), "qwen35.nextn_predict_layers": u32(1) }), tensors: [...tiny.tensors, ...extra] });
  using model = await LanguageModel.load(device, path, { states: 1, pages: 1 });
  expect(model.config.layers).toEqual(["gatedDelta", "attention"]);
  expect(model.skipped).toEqual(extra.map(({ name }) => `mtp.${name}`));
  expect(await logitsOf(path)).toEqual(await logitsOf(fileOf(tiny)));
});

describe("a bad file is refused", () => {
  const bytes = ggufBytes(tiny);
  const withBytes = (at: number, ...values: number[]) => {
    const copy = bytes.slice();
    copy.set(values, at);
    return copy;
  };
  const bigEndian = withBytes(4, 0, 0, 0, 3);
  const first = tiny.tensors[0]!;
  const second = tiny.tensors[1]!;
  test.each<[what: string, content: GgufToWrite | Uint8Array, mention: string]>([
    ["an empty file", new Uint8Array(0), "at least 24 bytes"],
    ["no magic", withBytes(0, 0x67, 0x67, 0x6a, 0x74), "first bytes 67 67 6a 74"],
    ["the other byte order", bigEndian, "a big-endian one"],
    ["version 1", { ...tiny, version: 1 }, "version 2 or 3"],
    ["version 4", { ...tiny, version: 4 }, "version 2 or 3"],
    ["2^64 - 1 tensors", withBytes(8, ...Array<number>(8).fill(255)), "below 2^53"],
    ["2^40 tensors", withBytes(8, 0, 0, 0, 0, 0, 1, 0, 0), "at most 65536 tensors"],
    ["more tensors than the file has bytes for", withBytes(8, 0, 255, 0, 0, 0, 0, 0, 0), "65280 tensors, as the file says"],
    ["2^40 keys", withBytes(16, 0, 0, 0, 0, 0, 1, 0, 0), "at most 65536 metadata keys"],
    ["a key of 2^40 bytes", withBytes(24, 0, 0, 0, 0, 0, 1, 0, 0), "metadata key 0"],
    ["a key that is no UTF-8", withBytes(32, 0xff), "UTF-8"],
    ["the same key twice", { ...tiny, values: [...tiny.values, tiny.values[0]!] }, '"general.architecture" twice'],
    ["the same tensor twice", { ...tiny, tensors: [...tiny.tensors, first] }, '"token_embd.weight" twice'],
    ["an alignment of 0", valued({ "general.alignment": u32(0) }), "a power of two"],
    ["an alignment of 48", valued({ "general.alignment": u32(48) }), "a power of two"],
    ["an overlap", tensored(second.name, { offset: 32 }), "overlapping the tensor before it"],
    ["a hole", tensored(tiny.tensors.at(-1)!.name, { offset: 1 << 20 }), "leaving a hole"],
    ["an offset between two alignments", tensored(second.name, { offset: 33 }), "not a multiple of the alignment, 32"],
    ["five dimensions", tensored(first.name, { sizes: [1, 1, 1, 266, 32] }), "at most 4 dimensions"],
    ["a size of 0", tensored(first.name, { sizes: [0, 32] }), "sizes from 1 on"],
    ["sizes whose product is too large", tensored(first.name, { sizes: [2 ** 40, 2 ** 40] }), "fewer than 2^53 bytes"],
    ["rows that are not whole blocks", tensored(first.name, { sizes: [266, 33], type: 8 }), "whole blocks of 32"],
    ["bytes beyond the file", tensored(tiny.tensors.at(-1)!.name, { sizes: [64, 32] }), "a file of at least"],
    ["no sizes", valued({ "qwen35.ssm.state_size": undefined }), "metadata qwen35.ssm.state_size"],
    ["a size that is a text", valued({ "qwen35.ssm.state_size": text("16") }), "a whole number"],
    ["other lengths of value heads", valued({ "qwen35.attention.value_length": u32(8) }), "attention.value_length to be 16"],
    ["more prediction blocks than blocks", valued({ "qwen35.nextn_predict_layers": u32(2) }), "nextn_predict_layers"],
    ["no embedding", { ...tiny, tensors: tiny.tensors.slice(1) }, '"token_embd.weight"'],
    ["no query", { ...tiny, tensors: tiny.tensors.filter(({ name }) => name !== "blk.1.attn_q.weight") }, '"blk.1.attn_q.weight"'],
  ])("with %s", async (_, content, mention) => {
    const path = fileOf(content);
    const error = await refused(path);
    expect([error.code, error.message]).toEqual(["file", expect.stringContaining(mention)]);
    expect(error.message).toContain(path);
  });

  test("at whichever byte it ends", () => {
    const { length } = bytes;
    const path = fileOf(bytes);
    const last = tiny.tensors.at(-1)!.data.length;
    for (let size = length - 32; size > 0; size -= size > length - last - 64 ? 7 : 251) {
      truncateSync(path, size);
      expect(thrownBy(() => openGguf(path)).code).toBe("file");
    }
  });

  test("arrays of arrays, of unknown types, and longer than the file", async () => {
    const key = (...value: number[]) => {
      const start = [...new TextEncoder().encode("GGUF"), 3, 0, 0, 0, ...Array<number>(8).fill(0), 1, 0, 0, 0, 0, 0, 0, 0];
      return new Uint8Array([...start, 1, 0, 0, 0, 0, 0, 0, 0, 0x61, ...value]);
    };
    const long = Array<number>(64).fill(0);
    for (const [value, mention] of [
      [[9, 0, 0, 0, 9, 0, 0, 0, ...long], "an array of arrays"],
      [[9, 0, 0, 0, 13, 0, 0, 0, ...long], "one of 0..12"],
      [[13, 0, 0, 0, ...long], "one of 0..12"],
      [[7, 0, 0, 0, 2, ...long], "a boolean"],
      [[9, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, ...long], "4294967296 texts"],
      [[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, ...long], "4294967296 bytes of"],
      [[8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, ...long], "4294967296 bytes of"],
    ] as const) {
      expect((await refused(fileOf(key(...value)))).message).toContain(mention);
    }
  });
});

describe("a folder", () => {
  test("with several models is refused, with their names", async () => {
    const path = fileOf(tiny, "a.gguf");
    cpSync(path, join(dirname(path), "b.gguf"));
    const error = await refused(dirname(path));
    expect([error.code, error.message]).toEqual(["file", expect.stringContaining("2: a.gguf, b.gguf")]);
    expect(await logitsOf(join(dirname(path), "b.gguf"))).toEqual(await logitsOf(path));
  });

  test("with safetensors, too, is read as a folder of those", () => {
    const path = fileOf(tiny);
    writeFileSync(join(dirname(path), "model.safetensors"), "");
    expect(thrownBy(() => openCheckpoint(dirname(path))).message).toContain("model.safetensors");
  });
});

describe.each(["qwen35-q4_k_m", "qwen35-q8_0"])("%s", (name) => {
  const parts = partsOf(ggufPath(name));

  test("has the tokens that llama.cpp has", async () => {
    using model = await LanguageModel.load(device, fileOf(asFloats(parts)));
    for (const [whole, ids] of expectedTexts(dirname(ggufPath(name)))) {
      expect(model.text.encode(whole)).toEqual([...ids]);
      expect(model.text.tokenizer.decode(ids, { specialTokens: true })).toBe(whole);
    }
    expect(model.config.eosTokens).toEqual([2]);
  });

  test("has blocks that the reference reads", () => {
    using file = openGguf(ggufPath(name));
    const { weightFormat } = file.info("model.layers.0.mlp.gate_proj.weight");
    const values = dequantiseGgml(weightFormat as keyof typeof ggmlFormats, file.read("model.layers.0.mlp.gate_proj.weight"));
    expect(values.every(Number.isFinite)).toBe(true);
    expect(new Set(values).size).toBeGreaterThan(100);
  });
});

describe("the tokenizer", () => {
  const loaded = async (changes: Readonly<Record<string, GgufValue | undefined>>) => await LanguageModel.load(device, fileOf(valued(changes)), { states: 1, pages: 1 });
  const id = (token: string) => tinyTokens.indexOf(token);

  test("merges, and knows control, user-defined and unused tokens", async () => {
    using model = await loaded({});
    const { tokenizer } = model.text;
    expect(tokenizer.encode("hello<tool><|im_end|>")).toEqual([id("hel"), id("l"), id("o"), id("<tool>"), 2]);
    expect(tokenizer.encode("<tool><|im_end|>", { specialTokens: "text" })).not.toContain(2);
    expect([tokenizer.isSpecial(2), tokenizer.isSpecial(id("<tool>"))]).toEqual([true, false]);
    expect(tokenizer.encode("[unused0]")).not.toContain(id("[unused0]"));
    expect(tokenizer.decode([id("hel"), id("[unused0]"), id("l")])).toBe("hell");
  });

  test("has qwen2's expression, which takes marks apart from letters", async () => {
    using model = await loaded({ "tokenizer.ggml.pre": text("qwen2") });
    using other = await loaded({});
    expect(model.text.encode("hello")).toEqual(other.text.encode("hello"));
    expect(model.text.tokenizer.decode(model.text.encode("e\u0301"))).toBe("e\u0301");
  });

  test("adds its first and last token where it is asked to", async () => {
    using model = await loaded({ "tokenizer.ggml.add_bos_token": { type: "bool", value: true }, "tokenizer.ggml.bos_token_id": u32(1), "tokenizer.ggml.add_eos_token": { type: "bool", value: true } });
    expect(model.text.encode("l")).toEqual([id("l")]);
    expect(model.text.encode("l", { addSpecialTokens: true })).toEqual([1, id("l"), 2]);
  });

  test("has named templates", async () => {
    using model = await loaded({ "tokenizer.chat_template.tool_use": text("{{ eos_token }}!") });
    expect(model.text.template.names).toEqual(["default", "tool_use"]);
    expect(model.text.template.render([{ role: "user", content: "hi" }], { template: "tool_use" })).toBe("<|im_end|>!");
    expect(model.text.chat([{ role: "user", content: "l" }])[0]).toBe(1);
  });

  test("may be missing, and so may the template", async () => {
    using model = await loaded({ "tokenizer.ggml.model": text("none"), "tokenizer.chat_template": undefined });
    expect(model.text.hasTokenizer).toBe(false);
    expect(thrownBy(() => model.text.tokenizer).code).toBe("unsupported");
    expect(thrownBy(() => model.text.template).code).toBe("unsupported");
  });

  test.each<[what: string, changes: Readonly<Record<string, GgufValue | undefined>>, code: string, mention: string]>([
    ["of another kind", { "tokenizer.ggml.model": text("llama") }, "unsupported", '"llama"'],
    ["of another expression", { "tokenizer.ggml.pre": text("gpt-2") }, "unsupported", '"gpt-2"'],
    ["of no expression", { "tokenizer.ggml.pre": undefined }, "unsupported", "tokenizer.ggml.pre"],
    ["of an unknown type of token", { "tokenizer.ggml.token_type": { type: "i32s", value: tinyTokens.map(() => 7) } }, "unsupported", "token_type[0]"],
    ["of too few types", { "tokenizer.ggml.token_type": { type: "i32s", value: [1] } }, "file", "token_type of 263 tokens"],
    ["of no merges", { "tokenizer.ggml.merges": undefined }, "file", "tokenizer.ggml.merges"],
    ["of a token twice", { "tokenizer.ggml.tokens": { type: "texts", value: [...tinyTokens.slice(0, -1), "hel"] } }, "file", '"hel" twice'],
    ["of more tokens than the model", { "tokenizer.ggml.tokens": { type: "texts", value: [...tinyTokens, "x1", "x2"] } }, "file", "at most 263 elements"],
    ["of tokens that are numbers", { "tokenizer.ggml.tokens": { type: "i32s", value: [1] } }, "file", "an array of texts"],
  ])("%s is refused", async (_, changes, code, mention) => {
    using model = await loaded(changes);
    const error = thrownBy(() => model.text.tokenizer);
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(mention)]);
  });
});
