/** The files of a model: one, or several as `llama-gguf-split` writes them, whose names end in `-00001-of-00003.gguf`. */
import { basename, dirname, join } from "node:path";
import { FileError, describe } from "../../errors.ts";
import type { Metadata } from "./metadata.ts";

const shardName = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;

/** Far above the number of any model's files. */
const mostShards = 4096;

/** The paths of all files of the model that one of them belongs to, in order. */
export function shardPaths(path: string, op: string): string[] {
  const [, stem, , all] = shardName.exec(basename(path)) ?? [];
  if (stem === undefined || all === undefined) return [path];
  const count = Number(all);
  if (count < 1 || count > mostShards) throw new FileError(path, { op, expected: `a model of 1 to ${mostShards} files`, received: `${count}, by its name` });
  return Array.from({ length: count }, (_, i) => join(dirname(path), `${stem}-${String(i + 1).padStart(5, "0")}-of-${all}.gguf`));
}

/** The first file of each model among a folder's names. */
export function firstShards(names: readonly string[]): string[] {
  return names.filter((name) => {
    const [, , number] = shardName.exec(name) ?? [];
    return number === undefined || number === "00001";
  });
}

/**
 * Expects the metadata that the writer of shards puts into each.
 *
 * @param index the file's place among `count`.
 */
export function expectShard(metadata: Metadata, path: string, index: number, count: number, op: string): void {
  const all = metadata.integer("split.count", 0, mostShards) ?? 1;
  if (Math.max(all, 1) !== count) {
    const expected = all > 1 ? `one of ${all} files, as split.count says, whose names end in -00001-of-${String(all).padStart(5, "0")}.gguf` : `split.count ${count}, as its name says`;
    throw new FileError(path, { op, expected, received: all > 1 ? describe(basename(path)) : "a file that is no part" });
  }
  const number = metadata.integer("split.no", 0, mostShards) ?? 0;
  if (number !== index) throw new FileError(path, { op, expected: `split.no ${index}, as its name says`, received: `${number}` });
}
