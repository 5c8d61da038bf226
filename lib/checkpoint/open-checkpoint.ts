/**
 * A checkpoint in Hugging Face's layout: one safetensors file, or several with an index
 * (`model.safetensors.index.json`) whose `weight_map` gives the file of each tensor; or a GGUF file.
 */
import { readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { DisposedError, FileError, GatedDeltaError, describe } from "../errors.ts";
import type { FloatArray } from "./dtypes.ts";
import { placeInFile } from "./file-tensors.ts";
import type { FileTensors, TensorPlace } from "./file-tensors.ts";
import { openSafetensors } from "./safetensors-file.ts";
import type { SafetensorsFile } from "./safetensors-file.ts";
import { asArray } from "../arguments/reading.ts";
import { foreignToJson } from "./foreign.ts";
import { findGguf, ggufNames } from "./gguf/find-gguf.ts";
import { openGguf } from "./gguf/gguf-checkpoint.ts";
import { longestHeader } from "./header.ts";
import type { TensorInfo } from "./header.ts";
import { FormatError, isRecord, parseJsonObject } from "./json.ts";
import type { JsonObject } from "./json.ts";
import { refuseOtherFolders } from "./other-folders.ts";
import { readWhole } from "./regular-file.ts";
import { PrefixedNames } from "./source.ts";
import type { TensorSource } from "./source.ts";

const indexName = "model.safetensors.index.json";
const singleName = "model.safetensors";

/** The most files in a list, far above any checkpoint's number. */
const mostFiles = 65536;

/**
 * Opens a checkpoint. The index is parsed here, and each file's header when the file is opened: open a checkpoint
 * once and load all layers from it.
 *
 * A shard of an index is opened when one of its tensors is first used, so that tensors of some shards can be read while
 * others are missing.
 *
 * @param source a `.safetensors` file, an index (`.json`), a GGUF file, a directory that holds one of these, or a list of
 *   safetensors files, whose tensors must have distinct names.
 * @param caller the call named in errors, including those of later reads. @default this function, then the checkpoint's methods
 * @throws {FileError} if a file is missing or damaged, a directory has several checkpoints, or two files have a tensor of the same name.
 */
export function openCheckpoint(source: string | readonly string[], caller?: string): TensorSource {
  const op = caller ?? "openCheckpoint";
  if (typeof source !== "string") {
    return openList(caller, asArray(op, "source", "a path or a list of paths", source, mostFiles) as readonly string[]);
  }
  const kind = kindOfPath(source);
  const advice = downloadAdvice(source);
  if (kind === "nothing" && advice !== "" && !/\.(?:safetensors|json|gguf)$/.test(source)) {
    throw new FileError(source, { op, expected: `a local folder or file${advice}`, received: "no such folder or file" });
  }
  const gguf = findGguf(source);
  if (gguf !== undefined) return openGguf(gguf, caller);
  const path = kind === "directory" ? findIn(op, source) : source;
  if (!path.endsWith(".json")) return openSafetensors(path, caller);
  const shardOf = readIndex(op, path);
  if (kind === "directory") refuseTwo(op, source, shardOf);
  return new ShardedCheckpoint(path, shardOf, caller);
}

/**
 * Advice for the error about a missing path. A path that could be a name on the Hugging Face Hub gets the hint that nothing is
 * downloaded; for others the text is empty.
 */
export function downloadAdvice(path: string): string {
  if (!/^[\w.-]+\/[\w.-]+$/.test(path)) return "";
  return `: models are not downloaded (\`hf download ${path}\` does that, and prints the folder)`;
}

function openList(caller: string | undefined, paths: readonly string[]): TensorSource {
  const op = caller ?? "openCheckpoint";
  const [first] = paths;
  if (first === undefined) {
    throw new GatedDeltaError("invalid-argument", { op, argument: "source", expected: "at least one file", received: "none" });
  }
  if (paths.length === 1) return openSafetensors(first, caller);
  const opened = new Map<string, SafetensorsFile>();
  try {
    const shardOf = new Map<string, string>();
    for (const path of paths) {
      if (opened.has(path)) continue;
      const file = openSafetensors(path, caller);
      opened.set(path, file);
      for (const name of file.names) {
        const other = shardOf.get(name);
        if (other !== undefined) {
          const expected = `tensor ${describe(name)} in one file only`;
          throw new FileError(path, { op, expected, received: `the same in ${describe(other)}` });
        }
        shardOf.set(name, path);
      }
    }
    return new ShardedCheckpoint(first, shardOf, caller, opened);
  } catch (error) {
    for (const file of opened.values()) file[Symbol.dispose]();
    throw error;
  }
}

/** The place of a tensor in a source of {@link openCheckpoint}. */
export let placeOf: (source: TensorSource, name: string) => TensorPlace;

class ShardedCheckpoint implements TensorSource {
  readonly path: string;
  readonly #shardOf: ReadonlyMap<string, string>;
  readonly #opened: Map<string, SafetensorsFile>;
  readonly #names: PrefixedNames;
  readonly #caller: string | undefined;
  #disposed = false;

  constructor(path: string, shardOf: ReadonlyMap<string, string>, caller: string | undefined, opened = new Map<string, SafetensorsFile>()) {
    this.#caller = caller;
    this.path = path;
    this.#shardOf = shardOf;
    this.#opened = opened;
    this.#names = new PrefixedNames(shardOf);
  }

  static {
    placeOf = (source, name) => placeInFile(source instanceof ShardedCheckpoint ? source.#fileOf(name) : (source as FileTensors), name);
  }

  get names(): readonly string[] {
    return this.#names.all;
  }

  namesWithPrefix(prefix: string): readonly string[] {
    return this.#names.withPrefix(prefix);
  }

  get metadata(): ReadonlyMap<string, string> {
    const merged = new Map<string, string>();
    for (const file of this.#opened.values()) {
      for (const [key, value] of file.metadata) if (!merged.has(key)) merged.set(key, value);
    }
    return merged;
  }

  has(name: string): boolean {
    return this.#shardOf.has(name);
  }

  info(name: string): TensorInfo {
    return this.#fileOf(name).info(name);
  }

  read(name: string): Uint8Array<ArrayBuffer> {
    return this.#fileOf(name).read(name);
  }

  readInto(name: string, target: Uint8Array): void {
    this.#fileOf(name).readInto(name, target);
  }

  readSlice(name: string, from: number, target: Uint8Array): void {
    this.#fileOf(name).readSlice(name, from, target);
  }

  async readSliceAsync(name: string, from: number, target: Uint8Array): Promise<void> {
    await this.#fileOf(name).readSliceAsync(name, from, target);
  }

  floats(name: string): FloatArray {
    return this.#fileOf(name).floats(name);
  }

  float32(name: string): Float32Array<ArrayBuffer> {
    return this.#fileOf(name).float32(name);
  }

  float64(name: string): Float64Array<ArrayBuffer> {
    return this.#fileOf(name).float64(name);
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    for (const file of this.#opened.values()) file[Symbol.dispose]();
  }

  #fileOf(name: string): SafetensorsFile {
    const shard = this.#shardOf.get(name);
    if (shard === undefined) {
      throw new FileError(this.path, { op: this.#caller ?? "read", expected: `a tensor ${describe(name)}`, received: "a checkpoint without it" });
    }
    let file = this.#opened.get(shard);
    if (file === undefined) {
      if (this.#disposed) {
        throw new DisposedError({ op: this.#caller ?? "read", argument: this.path, expected: "an open checkpoint", received: "a closed one" });
      }
      file = openSafetensors(shard, this.#caller);
      this.#opened.set(shard, file);
    }
    return file;
  }
}

function kindOfPath(path: string): "directory" | "nothing" | "something" {
  try {
    return statSync(path).isDirectory() ? "directory" : "something";
  } catch (cause) {
    // Other failures are reported when the file is opened.
    return (cause as { code?: unknown }).code === "ENOENT" ? "nothing" : "something";
  }
}

/** The index or the only file of a directory. */
function findIn(op: string, directory: string): string {
  let entries: string[];
  try {
    entries = readdirSync(directory);
  } catch (cause) {
    throw new FileError(directory, { op, expected: "a readable directory", received: String((cause as Error).message), cause });
  }
  refuseOtherFolders(op, directory, entries);
  const ggufs = ggufNames(entries);
  if (ggufs.length > 0) throw new FileError(directory, { op, expected: "one GGUF model in it, or the name of one", received: `${ggufs.length}: ${listText(ggufs)}` });
  const files = entries.filter((entry) => entry.endsWith(".safetensors"));
  const found = entries.includes(indexName) ? indexName : files.includes(singleName) ? singleName : files[0];
  if (found === undefined || (found !== indexName && found !== singleName && files.length > 1)) {
    const expected = `${indexName}, ${singleName} or a single .safetensors file in it`;
    const others = entries.filter((entry) => /\.(?:bin|pt|pth|npz|h5|onnx)$/.test(entry));
    const none = others.length === 0 ? "none" : `none, but ${listText(others)}`;
    throw new FileError(directory, { op, expected, received: files.length === 0 ? none : `${files.length} files` });
  }
  return join(directory, found);
}

/** Refuses a folder with an index and a file that is itself a checkpoint: other programs read the file. */
function refuseTwo(op: string, directory: string, shardOf: ReadonlyMap<string, string>): void {
  const single = join(directory, singleName);
  if (kindOfPath(single) === "nothing" || new Set(shardOf.values()).has(single)) return;
  throw new FileError(directory, { op, expected: `one checkpoint in it, ${indexName} or ${singleName}`, received: "both, and the index does not name that file" });
}

function listText(names: readonly string[]): string {
  return `${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""}`;
}

/** The shard's path of every tensor of an index. */
function readIndex(op: string, path: string): ReadonlyMap<string, string> {
  const bytes = readWhole(path, op, "an index", longestHeader);
  try {
    return weightMapOf(parseJsonObject(bytes, "the index"), dirname(path));
  } catch (cause) {
    if (!(cause instanceof FormatError)) throw cause;
    const foreign = foreignToJson(bytes);
    const expected = foreign === undefined ? cause.expected : "an index in JSON";
    throw new FileError(path, { op, expected, received: foreign ?? cause.received });
  }
}

function weightMapOf({ weight_map: map }: JsonObject, directory: string): ReadonlyMap<string, string> {
  if (!isRecord(map)) throw new FormatError("the index to have a weight_map, an object", map === undefined ? "none" : describe(map));
  const paths = new Map<string, string>(); // by shard name, because an index repeats a few names thousands of times
  const shardOf = new Map<string, string>();
  for (const [name, shard] of Object.entries(map)) {
    if (typeof shard !== "string") throw new FormatError(`weight_map ${describe(name)} to be a string`, describe(shard));
    let path = paths.get(shard);
    if (path === undefined) {
      if (!isPlainName(shard)) {
        throw new FormatError(`weight_map ${describe(name)} to be a .safetensors file in the folder of the index`, describe(shard));
      }
      path = join(directory, shard);
      paths.set(shard, path);
    }
    shardOf.set(name, path);
  }
  return shardOf;
}

/** Whether a shard's name stays in the index's folder: an index must not read files elsewhere. */
function isPlainName(name: string): boolean {
  return name.endsWith(".safetensors") && name.length <= 255 && !/[/\\\0:]/.test(name) && !name.startsWith("..");
}
