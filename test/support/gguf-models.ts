/** The golden GGUF models in parts, which tests change and write again. */
import { closeSync, openSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { Cursor } from "../../lib/checkpoint/gguf/cursor.ts";
import { readGgufHeader } from "../../lib/checkpoint/gguf/header.ts";
import { Metadata } from "../../lib/checkpoint/gguf/metadata.ts";
import { openSafetensors } from "../../lib/checkpoint/safetensors.ts";
import { dequantiseGgml, ggmlFormats } from "../reference/gguf.ts";
import type { GgmlName } from "../reference/gguf.ts";
import type { GgufToWrite, GgufValue } from "./gguf-writer.ts";

const models = join(import.meta.dir, "../golden/models");

/** The path of a golden model's file. */
export function ggufPath(name: string): string {
  return join(models, name, "model.gguf");
}

/** Texts and their ids from the metadata of a folder's `expected.safetensors`. */
export function expectedTexts(folder: string): (readonly [text: string, ids: readonly number[]])[] {
  using file = openSafetensors(join(folder, "expected.safetensors"));
  return JSON.parse(file.metadata.get("texts") ?? "[]") as [string, number[]][];
}

/** The reference's name of a type, by ggml's number. */
export function formatOfType(type: number): GgmlName {
  return (Object.keys(ggmlFormats) as GgmlName[]).find((name) => ggmlFormats[name].type === type)!;
}

/** A file's metadata and tensors. */
export function partsOf(path: string): GgufToWrite {
  const descriptor = openSync(path, "r");
  try {
    const size = statSync(path).size;
    const { values, tensors } = readGgufHeader(new Cursor(path, descriptor, size, "test"), { path, op: "test" }, () => {});
    const metadata = new Metadata(values, path, descriptor, "test");
    const bytes = readFileSync(path);
    return {
      values: metadata.keys.map((key) => [key, valueOf(metadata, key)] as const),
      tensors: [...tensors].map(([name, { type, sizes, bytes: length, position }]) => {
        const number = ggmlFormats[("dtype" in type.stored ? type.name.toLowerCase() : type.stored.weightFormat) as GgmlName].type;
        return { name, type: number, sizes, data: new Uint8Array(bytes.subarray(position, position + length)) };
      }),
    };
  } finally {
    closeSync(descriptor);
  }
}

function valueOf(metadata: Metadata, key: string): GgufValue {
  const value = metadata.scalar(key);
  if (typeof value === "bigint") return { type: value < 0n ? "i64" : "u64", value };
  if (typeof value === "boolean") return { type: "bool", value };
  if (typeof value === "number") return Number.isInteger(value) && !key.includes("freq_base") ? { type: "u32", value } : { type: "f32", value };
  if (value !== "array") return { type: "text", value: value! };
  const readers = [
    (): GgufValue => ({ type: "i32s", value: metadata.integers(key, 1 << 20)! }),
    (): GgufValue => ({ type: "bools", value: metadata.flags(key, 1 << 20)! }),
  ];
  for (const read of readers) {
    try {
      return read();
    } catch {
      // an array of other elements
    }
  }
  const { length, at } = metadata.texts(key, 1 << 20)!;
  return { type: "texts", value: Array.from({ length }, (_, i) => at(i)) };
}

/** The same model with all weights as the F32 numbers that the blocks represent. */
export function asFloats({ values, tensors }: GgufToWrite): GgufToWrite {
  return {
    values,
    tensors: tensors.map(({ name, type, sizes, data }) => ({ name, type: 0, sizes, data: new Uint8Array(dequantiseGgml(formatOfType(type), data).buffer) })),
  };
}
