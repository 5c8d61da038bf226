/** Models for tests: tiny random ones, written to a folder that belongs to the calling file. */
import { expect } from "bun:test";
import { existsSync } from "node:fs";
import { GatedDeltaError } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { Device } from "../../lib/index.ts";
import type { BatchEntry, LoadModelOptions, Sequence } from "../../lib/model.ts";
import { scratch } from "./files.ts";
import { tinyModel, writeTinyModel } from "./model-folders.ts";
import type { TinyModel } from "./model-folders.ts";

const { newPath } = scratch();
const written = new Map<string, string>();

/** The folder of a tiny model. */
export function tinyFolder(change: Partial<TinyModel> = {}, seed = 1): string {
  const key = JSON.stringify([change, seed]);
  let folder = written.get(key);
  // When another test file ends, it removes its own folder.
  if (folder === undefined || !existsSync(folder)) written.set(key, (folder = writeTinyModel(newPath(), { ...tinyModel, ...change }, seed)));
  return folder;
}

/** Opens a tiny model. */
export function openTiny(device: Device, options: Partial<LoadModelOptions> = {}, change: Partial<TinyModel> = {}): Promise<LanguageModel> {
  return LanguageModel.load(device, tinyFolder(change), { states: 4, pages: { count: 32, tokens: 8 }, ...options });
}

/** The tokens of the text with this number. */
export function textOf(seed: number, count: number, vocabulary: number = tinyModel.vocabulary): number[] {
  return Array.from({ length: count }, (_, i) => (seed * 7919 + i * i * 31 + i * 17) % vocabulary);
}

/** A copy of the logits of one run of one sequence. */
export async function logitsOf(model: LanguageModel, sequence: Sequence, tokens: BatchEntry["tokens"], logits: "last" | "all" = "all"): Promise<Float32Array> {
  const [result] = await model.run([{ sequence, tokens, logits }]);
  return result!.logits.slice();
}

/** The logits of a text that a new sequence reads as a whole. */
export async function coldLogits(model: LanguageModel, tokens: readonly number[]): Promise<Float32Array> {
  using sequence = model.sequence();
  return await logitsOf(model, sequence, tokens);
}

/** The library's error with which a promise is rejected. */
export async function rejection(promise: Promise<unknown>): Promise<GatedDeltaError> {
  const error = await promise.then(() => undefined, (reason: unknown) => reason);
  expect(error).toBeInstanceOf(GatedDeltaError);
  return error as GatedDeltaError;
}
