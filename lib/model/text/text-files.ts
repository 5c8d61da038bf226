/** The text files of a model's folder. */
import { FileError, describe } from "../../errors.ts";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { findGguf } from "../../checkpoint/gguf/find-gguf.ts";
import { isRecord } from "../../checkpoint/json.ts";
import type { JsonObject } from "../../checkpoint/json.ts";
import { readWhole, statOf } from "../../checkpoint/regular-file.ts";

/** In bytes; the largest published tokenizers have about thirty million. */
const largestFile = 256 * 1024 * 1024;

/** Where a model's text is: a GGUF file, the folder at the path, or the folder of the checkpoint file that the path names. */
export function folderOf(path: string): string {
  const gguf = findGguf(path);
  if (gguf !== undefined) return gguf;
  return statOf(path)?.isFile() === true ? dirname(path) : path;
}

/** Reads a file that should contain UTF-8 text. */
export function readTextBytes(op: string, path: string, what: string): Uint8Array {
  return readWhole(path, op, what, largestFile);
}

/** Reads a file of UTF-8 text; undefined if it does not exist. */
export function readText(op: string, path: string, what: string): string | undefined {
  if (!existsSync(path)) return undefined;
  const bytes = readTextBytes(op, path, what);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new FileError(path, { op, expected: `${what} in UTF-8`, received: "bytes that are not UTF-8", cause });
  }
}

/** Reads a file that holds one JSON object; undefined if it does not exist. */
export function readObject(op: string, path: string, what: string): JsonObject | undefined {
  const text = readText(op, path, what);
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new FileError(path, { op, expected: `${what} in JSON`, received: cause instanceof Error ? cause.message : describe(cause), cause });
  }
  if (isRecord(value)) return value;
  throw new FileError(path, { op, expected: `${what}, a JSON object`, received: describe(value) });
}
