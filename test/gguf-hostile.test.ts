/** GGUF files that are wrong: each gives an error that describes the mistake. */
import { afterAll, describe, expect, test } from "bun:test";
import { cpSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { openGguf } from "../lib/checkpoint/gguf/gguf-checkpoint.ts";
import { openCheckpoint } from "../lib/checkpoint/safetensors.ts";
import { Device } from "../lib/index.ts";
import { thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { ggufFiles, logitsOf, refused, tensored, text, tiny, u32, valued } from "./support/gguf-cases.ts";
import { ggufBytes } from "./support/gguf-writer.ts";
import type { GgufToWrite } from "./support/gguf-writer.ts";

const fileOf = ggufFiles(scratch());
const device = Device.open({ backend: "cpu" });
afterAll(() => device[Symbol.dispose]());

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
    ["layers that it lists for other blocks", valued({ "qwen35.attention.recurrent_layers": { type: "bools", value: [true, false, true] } }), "recurrent_layers to have 2 elements"],
    ["a list of layers that is a text", valued({ "qwen35.attention.recurrent_layers": text("10") }), "an array of booleans"],
    ["a convolution of three dimensions", tensored("blk.0.ssm_conv1d.weight", { sizes: [64, 1, 4] }), "blk.0.ssm_conv1d.weight of 2 dimensions, channels and taps, got 3: [64, 1, 4]"],
    ["a size of 2^53", valued({ "qwen35.ssm.state_size": { type: "u64", value: 2n ** 53n } }), "qwen35.ssm.state_size to be a whole number in 1..2147483647, got 9007199254740992"],
    ["a size of -2^63", valued({ "qwen35.ssm.state_size": { type: "i64", value: -(2n ** 63n) } }), "got -9223372036854775808"],
    ["different numbers of heads by layer", valued({ "qwen35.attention.head_count": { type: "i32s", value: [2, 1] } }), "qwen35.attention.head_count to be a whole number in 1..2147483647, or 2 times the same one"],
    ["numbers of heads of other layers", valued({ "qwen35.attention.head_count": { type: "i32s", value: [2] } }), "qwen35.attention.head_count"],
    ["no width of the MLP", valued({ "qwen35.feed_forward_length": undefined }), "qwen35.feed_forward_length"],
    ["more rotated dimensions than a head has", valued({ "qwen35.rope.dimension_count": u32(32) }), "qwen35.rope.dimension_count"],
    ["an odd number of rotated dimensions", valued({ "qwen35.rope.dimension_count": u32(3) }), "qwen35.rope.dimension_count to be an even number"],
    ["groups that do not divide the value heads", valued({ "qwen35.ssm.group_count": u32(3) }), "qwen35.ssm.time_step_rank to be a multiple of ssm.group_count (3)"],
    ["no length of heads that its width gives", valued({ "qwen35.attention.key_length": undefined, "qwen35.attention.head_count": u32(3) }), "qwen35.embedding_length to be a multiple of attention.head_count (3)"],
    ["no gate of a mixer", { ...tiny, tensors: tiny.tensors.filter(({ name }) => name !== "blk.0.ssm_a") }, '"blk.0.ssm_a"'],
    ["no embedding", { ...tiny, tensors: tiny.tensors.slice(1) }, '"token_embd.weight"'],
    ["no query", { ...tiny, tensors: tiny.tensors.filter(({ name }) => name !== "blk.1.attn_q.weight") }, '"blk.1.attn_q.weight"'],
  ])("with %s", async (_, content, mention) => {
    const path = fileOf(content);
    const error = await refused(device, path);
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
      expect((await refused(device, fileOf(key(...value)))).message).toContain(mention);
    }
  });
});

describe("a folder", () => {
  test("with several models is refused, with their names", async () => {
    const path = fileOf(tiny, "a.gguf");
    cpSync(path, join(dirname(path), "b.gguf"));
    const error = await refused(device, dirname(path));
    expect([error.code, error.message]).toEqual(["file", expect.stringContaining("2: a.gguf, b.gguf")]);
    expect(await logitsOf(device, join(dirname(path), "b.gguf"))).toEqual(await logitsOf(device, path));
  });

  test("with safetensors, too, is read as a folder of those", () => {
    const path = fileOf(tiny);
    writeFileSync(join(dirname(path), "model.safetensors"), "");
    expect(thrownBy(() => openCheckpoint(dirname(path))).message).toContain("model.safetensors");
  });
});
