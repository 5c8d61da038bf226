/** The models that sessions' schedules run on: tiny ones with little memory, each with a second one that reads texts cold. */
import type { Device, FloatDType } from "../../lib/index.ts";
import { LanguageModel, tinyModel as packaged } from "../../lib/model.ts";
import { tinyExperts, tinyModel, writeTinyModel } from "../support/model-folders.ts";
import type { TinyModel } from "../support/model-folders.ts";
import { loadedFor } from "../support/roles.ts";
import type { Products } from "../support/roles.ts";
import { join } from "node:path";

/** A model under test. */
export interface Fixture {
  readonly name: string;
  /** The folder of its weights. */
  readonly path: string;
  readonly products: Products;
  readonly pageDType: FloatDType;
  readonly model: LanguageModel;
  /** A model with the same weights and dtypes that reads one text at a time, whole, in memory that nothing else uses. */
  readonly cold: LanguageModel;
}

interface Form {
  /** Sizes of a tiny model; without them the model is the package's, which has a tokenizer and a chat template. */
  readonly change?: Partial<TinyModel>;
  /** Instead, a folder of test/golden/models with packed weights, for int8 activations. */
  readonly packed?: string;
  readonly pages: { readonly count: number; readonly tokens: number; readonly dtype: FloatDType };
  readonly states: number;
  readonly batchTokens: number;
  readonly promptTokens: number;
}

const forms: Readonly<Record<string, Form>> = {
  "small pages": { change: {}, pages: { count: 60, tokens: 7, dtype: "f32" }, states: 7, batchTokens: 24, promptTokens: 8 },
  "pages of a token": { change: { layers: "gga", dtype: "bf16", valueHeads: 2, tied: true }, pages: { count: 330, tokens: 1, dtype: "f16" }, states: 9, batchTokens: 40, promptTokens: 16 },
  "large pages": { change: { layers: "ag" }, pages: { count: 14, tokens: 64, dtype: "bf16" }, states: 12, batchTokens: 512, promptTokens: 64 },
  "a mixture of experts": { change: { experts: tinyExperts }, pages: { count: 40, tokens: 8, dtype: "f32" }, states: 6, batchTokens: 32, promptTokens: 12 },
  "no attention": { change: { layers: "gg", convWidth: 2 }, pages: { count: 1, tokens: 8, dtype: "f32" }, states: 5, batchTokens: 16, promptTokens: 5 },
  "messages": { pages: { count: 50, tokens: 16, dtype: "f32" }, states: 6, batchTokens: 40, promptTokens: 16 },
};

const packedForms: Readonly<Record<string, Form>> = {
  "int8, 4 bits": { packed: "qwen3_5-mlx-4bit", pages: { count: 60, tokens: 7, dtype: "f32" }, states: 7, batchTokens: 24, promptTokens: 8 },
  "int8, blocks": { packed: "qwen35-q4_k_m", pages: { count: 14, tokens: 64, dtype: "bf16" }, states: 12, batchTokens: 512, promptTokens: 64 },
  "int8, experts": { packed: "qwen3_5_moe-mlx", pages: { count: 40, tokens: 8, dtype: "f32" }, states: 6, batchTokens: 32, promptTokens: 12 },
};

/** No text of a schedule is longer. */
export const longestText = 160;

/** Opens all models; tiny ones are written to `folder`. With int8 activations these are other models, with packed weights. */
export async function openFixtures(device: Device, folder: string, products: Products = "exact"): Promise<Fixture[]> {
  const fixtures: Fixture[] = [];
  for (const [i, [name, { change, packed }]] of Object.entries(products === "int8" ? packedForms : forms).entries()) {
    const path = packed !== undefined ? join(import.meta.dir, "../golden/models", packed) : change === undefined ? packaged : writeTinyModel(join(folder, `model-${i}`), { ...tinyModel, ...change }, i + 1);
    fixtures.push(await openFixture(device, name, path, products));
  }
  return fixtures;
}

/** Opens a model that was written before. */
export async function openFixture(device: Device, name: string, path: string, products: Products): Promise<Fixture> {
  const { change: _, packed: __, pages, ...options } = (forms[name] ?? packedForms[name])!;
  const model = await LanguageModel.load(device, path, { ...options, pages, ...loadedFor(products) });
  const cold = await LanguageModel.load(device, path, { ...loadedFor(products), states: 1, pages: { count: Math.ceil(longestText / 32), tokens: 32, dtype: pages.dtype } });
  return { name, path, products, pageDType: pages.dtype, model, cold };
}
