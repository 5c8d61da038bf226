/** The vocabulary and the merges of a `tokenizer.json`. */
import { existsSync } from "node:fs";
import { FileError, UnsupportedError, describe } from "../../errors.ts";
import { isRecord } from "../../checkpoint/json.ts";
import type { JsonObject } from "../../checkpoint/json.ts";
import { scanTokenizer } from "./scan-tables.ts";
import { readObject, readTextBytes } from "./text-files.ts";
import { TextTable, separator } from "./text-table.ts";

/** A tokenizer from a `tokenizer.json`, or from a GGUF file in the same form. */
export interface TokenizerTables {
  /** A `tokenizer.json` without `model.vocab` and `model.merges`. */
  readonly json: JsonObject;
  /** Each token once. */
  readonly tokens: TextTable;
  /** The id of each token, unchecked. */
  readonly ids: ArrayLike<unknown>;
  /** The merges by rank, each of two parts. */
  readonly merges: TextTable;
}

/**
 * Reads a file.
 *
 * @returns undefined if it does not exist.
 * @throws {FileError} if it is damaged; {@link UnsupportedError} for tokenizers other than byte-level BPE.
 */
export function readTables(op: string, path: string): TokenizerTables | undefined {
  const what = "a tokenizer";
  if (!existsSync(path)) return undefined;
  const scanned = scanTokenizer(readTextBytes(op, path, what));
  const json = scanned?.json ?? readObject(op, path, what)!;
  const { model, decoder } = json;
  const refuse = (expected: string, received: unknown) => new FileError(path, { op, expected, received: describe(received) });
  if (!isRecord(model)) throw refuse("model: an object", model);
  expectByteLevel(op, path, model, decoder);
  if (scanned !== undefined) return scanned;

  const { vocab, merges, ...rest } = model;
  if (!isRecord(vocab)) throw refuse("model.vocab: an object of token ids", vocab);
  if (!Array.isArray(merges)) throw refuse("model.merges: an array", merges);
  const bytesOf = (text: string): Uint8Array => {
    if (text.isWellFormed()) return Buffer.from(text);
    throw refuse("tokens of Unicode characters", text);
  };
  const pair = (merge: unknown, rank: number): Uint8Array => {
    const parts: unknown = typeof merge === "string" ? merge.split(" ", 2) : merge;
    if (!Array.isArray(parts) || !parts.every((part) => typeof part === "string")) throw refuse(`model.merges[${rank}]: two tokens`, merge);
    return Buffer.concat(parts.flatMap((part, i) => [...(i > 0 ? [Uint8Array.of(separator)] : []), bytesOf(part)]));
  };
  return { json: { ...json, model: rest }, tokens: tableOf(Object.keys(vocab).map(bytesOf)), ids: Object.values(vocab), merges: tableOf(merges.map(pair)) };
}

function tableOf(texts: readonly Uint8Array[]): TextTable {
  const table = new TextTable(Buffer.concat(texts));
  let at = 0;
  for (const { length } of texts) table.add(at, (at += length));
  table.index();
  return table;
}

/** Refuses other tokenizers: the bytes of a token are known only for byte-level BPE. */
function expectByteLevel(op: string, path: string, model: JsonObject, decoder: unknown): void {
  const { type } = model;
  // Old files omit the type; only BPE has merges.
  if (type !== "BPE" && !(type === undefined && "merges" in model)) {
    throw new UnsupportedError({ op, argument: `${path}: model.type`, expected: `"BPE"`, received: describe(type) });
  }
  const found = isRecord(decoder) ? decoder["type"] : decoder;
  if (found !== "ByteLevel") {
    throw new UnsupportedError({ op, argument: `${path}: decoder.type`, expected: `"ByteLevel"`, received: describe(found) });
  }
  for (const key of ["continuing_subword_prefix", "end_of_word_suffix"]) {
    const value = model[key] ?? "";
    if (value !== "") throw new UnsupportedError({ op, argument: `${path}: model.${key}`, expected: "none", received: describe(value) });
  }
}
