import { describe, expect, spyOn, test } from "bun:test";
import { mkdirSync, rmSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DisposedError, FileError } from "../lib/errors.ts";
import { openCheckpoint, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { refusal, scratch } from "./support/files.ts";

const { folder, newPath } = scratch();

describe("a checkpoint", () => {
  const byte = (value: number): TensorToWrite => ({ dtype: "U8", shape: [1], data: new Uint8Array([value]) });
  const firstShard = "model-00001-of-00002.safetensors";
  const secondShard = "model-00002-of-00002.safetensors";
  let count = 0;
  /** A folder with two shards and an index of them, changed by the caller. */
  function sharded(index?: (map: Record<string, unknown>) => unknown): { path: string; index: string } {
    const path = join(folder, `checkpoint-${count++}`);
    mkdirSync(path);
    writeSafetensors(join(path, firstShard), { a: byte(1), b: byte(2) }, { format: "pt", n: "1" });
    writeSafetensors(join(path, secondShard), { c: byte(3), unlisted: byte(4) }, { n: "2" });
    const map = { a: firstShard, b: firstShard, c: secondShard };
    const content = index?.(map) ?? { metadata: { total_size: 3 }, weight_map: map };
    const indexPath = join(path, "model.safetensors.index.json");
    writeFileSync(indexPath, typeof content === "string" ? content : JSON.stringify(content));
    return { path, index: indexPath };
  }

  test("reads from its shards, by folder or by index", () => {
    const { path, index } = sharded();
    for (const source of [path, index]) {
      using checkpoint = openCheckpoint(source);
      expect(checkpoint.names).toEqual(["a", "b", "c"]);
      expect([..."abc"].map((name) => checkpoint.read(name)[0])).toEqual([1, 2, 3]);
      expect(checkpoint.info("c").shape).toEqual([1]);
      expect([...checkpoint.floats("c")]).toEqual([3]);
      expect(checkpoint.metadata.get("n")).toBe("1");
      const target = new Uint8Array(1);
      checkpoint.readInto("b", target);
      expect(target[0]).toBe(2);
      expect(checkpoint.has("unlisted")).toBe(false);
      expect(() => checkpoint.read("d")).toThrow(FileError);
    }
  });

  test("a list of files is one checkpoint, unless two name the same tensor", () => {
    const { path } = sharded();
    const first = join(path, firstShard);
    const second = join(path, secondShard);
    using both = openCheckpoint([first, second, first]);
    expect([...both.names].sort()).toEqual(["a", "b", "c", "unlisted"]);
    expect(both.read("unlisted")[0]).toBe(4);
    using single = openCheckpoint([first]);
    expect(single.names).toEqual(["a", "b"]);
    const copy = newPath();
    writeSafetensors(copy, { a: byte(9) });
    expect(() => openCheckpoint([first, copy])).toThrow('expected tensor "a" in one file only');
    expect(() => openCheckpoint([])).toThrow("at least one file");
    expect(() => openCheckpoint(7 as unknown as string)).toThrow("a path or a list of paths");
  });

  test("a folder with one file, whatever its name, and one with none or several", () => {
    const path = join(folder, `single-${count++}`);
    mkdirSync(path);
    expect(refusal(path, openCheckpoint)).toContain("got none");
    writeFileSync(join(path, "model.gguf"), "GGUF");
    expect(refusal(join(path, "model.gguf"), () => openCheckpoint(path))).toContain("GGUF");
    rmSync(join(path, "model.gguf"));
    writeSafetensors(join(path, "x.safetensors"), { a: byte(5) });
    using only = openCheckpoint(path);
    expect(only.read("a")[0]).toBe(5);
    writeSafetensors(join(path, "y.safetensors"), { a: byte(6) });
    expect(refusal(path, openCheckpoint)).toContain("got 2 files");
    writeSafetensors(join(path, "model.safetensors"), { a: byte(7) });
    using named = openCheckpoint(path);
    expect(named.read("a")[0]).toBe(7);
  });

  test("a folder with an index and a file that the index does not name is refused", () => {
    const { path, index } = sharded();
    writeSafetensors(join(path, "model.safetensors"), { a: byte(7) });
    expect(refusal(path, openCheckpoint)).toContain("expected one checkpoint in it");
    using chosen = openCheckpoint(index);
    expect(chosen.read("a")[0]).not.toBe(7);
    // Converters write such an index.
    writeFileSync(index, JSON.stringify({ weight_map: { a: "model.safetensors" } }));
    using named = openCheckpoint(path);
    expect(named.read("a")[0]).toBe(7);
  });

  test("is parsed once, however many tensors are asked for", () => {
    const { path } = sharded();
    using parse = spyOn(JSON, "parse");
    using checkpoint = openCheckpoint(path);
    expect(parse).toHaveBeenCalledTimes(1); // the index
    for (let i = 0; i < 3; i++) {
      for (const name of checkpoint.names) {
        checkpoint.info(name);
        checkpoint.read(name);
      }
    }
    expect(parse).toHaveBeenCalledTimes(3); // and each shard's header
  });

  test("names by their prefix", () => {
    const names = ["a", "a.b", "a.b.c", "a.bc", "a/b", "b.1", "b.10", "b.2", "\uffff", "\u{1f600}", ""];
    const path = newPath();
    writeSafetensors(path, new Map(names.map((name) => [name, byte(1)])));
    using checkpoint = openCheckpoint(path);
    const prefixes = [...names, "a.", "b.", "c", "\ud83d"];
    for (const prefix of prefixes) {
      expect(checkpoint.namesWithPrefix(prefix)).toEqual(names.filter((name) => name.startsWith(prefix)).sort());
    }
    using both = openCheckpoint(sharded().path);
    expect(["", "b", "bc"].map((prefix) => both.namesWithPrefix(prefix))).toEqual([["a", "b", "c"], ["b"], []]);
  });

  test("a model's name is no folder", () => {
    const message = refusal("Qwen/Qwen3.5-0.8B", openCheckpoint);
    expect(message).toContain("a local folder or file");
    expect(message).toContain("hf download Qwen/Qwen3.5-0.8B");
    for (const path of ["nowhere/model.safetensors", "nowhere/index.json", "./a/b", "nowhere"]) {
      expect(refusal(path, openCheckpoint)).toContain("got no such file");
      expect(refusal(path, openCheckpoint)).not.toContain("hf download");
    }
  });

  test("a shard that is not there fails only those who ask for it", () => {
    const { path } = sharded();
    renameSync(join(path, secondShard), join(path, "elsewhere"));
    using checkpoint = openCheckpoint(path);
    expect(checkpoint.read("a")[0]).toBe(1);
    expect(() => checkpoint.read("c")).toThrow(FileError);
    expect(() => checkpoint.info("c")).toThrow(secondShard);
  });

  test("a tensor that the index promises and the shard lacks", () => {
    const { path } = sharded((map) => ({ weight_map: { ...map, d: map["a"] } }));
    using checkpoint = openCheckpoint(path);
    expect(() => checkpoint.read("d")).toThrow('expected a tensor "d"');
  });

  test("names that lead out of the folder, and other lies of an index", () => {
    const up = ["../x.safetensors", "..", "..\\x.safetensors"];
    const bad = [...up, "/etc/x.safetensors", "a/b.safetensors", "C:x.safetensors", "x\0.safetensors", "x.bin", ""];
    for (const shard of bad) {
      expect(refusal(sharded(() => ({ weight_map: { a: shard } })).index, openCheckpoint)).toContain("in the folder of the index");
    }
    const cases: [string, string][] = [
      ["", "an empty file"],
      ["{}", "a weight_map"],
      ["[]", "the index to be an object"],
      [`{"weight_map":[]}`, "weight_map, an object"],
      [`{"weight_map":{"a":1}}`, "to be a string"],
      [`{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}`, "twice"],
      [`{"weight_map":{},"weight_map":{}}`, "twice"],
      [`{"metadata":${"[".repeat(500_000)}`, "levels"],
      [`{"weight_map":{}} trailing`, "a syntax error"],
      ["version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "a git-lfs pointer"],
    ];
    for (const [content, says] of cases) {
      expect(refusal(sharded(() => content).index, openCheckpoint)).toContain(says);
    }
  });

  test("disposing closes every shard", () => {
    const { path } = sharded();
    const checkpoint = openCheckpoint(path);
    checkpoint.read("a");
    checkpoint[Symbol.dispose]();
    checkpoint[Symbol.dispose]();
    expect(() => checkpoint.read("a")).toThrow(DisposedError);
    expect(() => checkpoint.read("c")).toThrow(DisposedError);
  });
});
