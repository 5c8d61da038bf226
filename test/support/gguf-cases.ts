/** Changed copies of the tiny GGUF model: the files, the errors of refused ones, and the logits of others. */
import { expect } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { GatedDeltaError } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import { ggufBytes } from "./gguf-writer.ts";
import type { GgufTensorToWrite, GgufToWrite, GgufValue } from "./gguf-writer.ts";
import type { Scratch } from "./files.ts";
import { tinyGguf } from "./tiny-gguf.ts";

export const tiny = tinyGguf();

/** Changes of values by their keys; undefined removes a value. */
export type Values = Readonly<Record<string, GgufValue | undefined>>;

export const u32 = (value: number): GgufValue => ({ type: "u32", value });
export const text = (value: string): GgufValue => ({ type: "text", value });

/** The tiny model with some values changed, added or removed. */
export function valued(changes: Values, base = tiny): GgufToWrite {
  const kept = base.values.filter(([key]) => !Object.hasOwn(changes, key));
  const added = Object.entries(changes).flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]));
  return { ...base, values: [...kept, ...added] };
}

/** The tiny model with one tensor changed. */
export function tensored(name: string, change: Partial<GgufTensorToWrite>): GgufToWrite {
  return { ...tiny, tensors: tiny.tensors.map((tensor) => (tensor.name === name ? { ...tensor, ...change } : tensor)) };
}

/** Writes files into a test file's folder. */
export function ggufFiles({ newPath }: Scratch): (content: GgufToWrite | Uint8Array, name?: string) => string {
  return (content, name = "model.gguf") => {
    const path = join(newPath("folder"), name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content instanceof Uint8Array ? content : ggufBytes(content));
    return path;
  };
}

/** The error of a model that must be refused. */
export async function refused(device: Device, path: string): Promise<GatedDeltaError> {
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

/** The logits after some tokens. */
export async function logitsOf(device: Device, path: string): Promise<Float32Array> {
  using model = await LanguageModel.load(device, path, { states: 1, pages: 1 });
  using sequence = model.sequence();
  const [result] = await model.run([{ sequence, tokens: [3, 70, 100, 5] }]);
  return result!.logits.slice();
}
