/**
 * The models that schedules run on: tiny ones, opened in several forms. Each form has a second model with the same weights,
 * which reads one sequence at a time, whole, into memory that nothing else uses. The two must agree.
 */
import { join, resolve } from "node:path";
import type { Device, FloatDType } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import { memoryOf } from "../../lib/model/model-memory.ts";
import { loadedFor } from "../support/roles.ts";
import type { Products } from "../support/roles.ts";
import { tinyExperts, tinyModel, writeTinyModel } from "../support/model-folders.ts";
import type { TinyModel } from "../support/model-folders.ts";

/** How a model is opened. */
interface Form {
  readonly folder: string;
  readonly dtype: FloatDType;
  readonly pageDtype: FloatDType;
  readonly pageTokens: number;
  readonly pages: number;
  readonly states: number;
  readonly batchTokens: number;
}

/** A model under test. */
export interface Fixture {
  readonly name: string;
  readonly model: LanguageModel;
  /** A model with the same weights and dtypes, and no other option. */
  readonly cold: LanguageModel;
  /** Whether texts may be longer than a span of attention. */
  readonly long: boolean;
}

const golden = resolve(import.meta.dir, "../golden/models");

/** The models; tiny ones are written to `folder`. */
function formsOf(folder: string): Form[] {
  const tiny = (name: string, change: Partial<TinyModel>, seed: number) => writeTinyModel(join(folder, name), { ...tinyModel, ...change }, seed);
  const plain = tiny("plain", {}, 1);
  const half = tiny("half", { dtype: "bf16", layers: "gga", heads: 3, kvHeads: 1, headDim: 24, rotaryDim: 6, valueHeads: 2, valueDim: 16, tied: true }, 2);
  const first = tiny("attention-first", { dtype: "f16", layers: "ag", heads: 2, kvHeads: 2, headDim: 8, rotaryDim: 8, keyHeads: 2, valueHeads: 4 }, 3);
  const pure = tiny("no-attention", { layers: "gg", convWidth: 2 }, 4);
  const mixture = tiny("mixture", { experts: tinyExperts }, 5);
  const manyExperts = tiny("many-experts", { dtype: "bf16", layers: "ga", experts: { ...tinyExperts, count: 19, perToken: 6, normalized: false, dense: [] } }, 6);
  const micro = tiny("micro-scaled", { micro: true, layers: "gag", hidden: 64, intermediate: 96, heads: 3, kvHeads: 1, valueDim: 16, tied: true }, 7);
  const quantised = join(golden, "qwen3_5-mlx-mixed");
  const gguf = join(golden, "qwen35-q4_k_m");
  const normedAfter = join(golden, "olmo_hybrid");
  const quantisedExperts = join(golden, "qwen3_5_moe-mlx");
  return [
    { folder: plain, dtype: "f32", pageDtype: "f32", pageTokens: 7, pages: 40, states: 6, batchTokens: 24 },
    { folder: plain, dtype: "f32", pageDtype: "bf16", pageTokens: 64, pages: 60, states: 5, batchTokens: 512 },
    { folder: half, dtype: "f32", pageDtype: "f16", pageTokens: 1, pages: 150, states: 7, batchTokens: 9 },
    { folder: half, dtype: "bf16", pageDtype: "bf16", pageTokens: 16, pages: 24, states: 8, batchTokens: 64 },
    { folder: first, dtype: "f16", pageDtype: "f32", pageTokens: 3, pages: 70, states: 5, batchTokens: 33 },
    { folder: pure, dtype: "f32", pageDtype: "f32", pageTokens: 8, pages: 1, states: 4, batchTokens: 16 },
    { folder: quantised, dtype: "f32", pageDtype: "f32", pageTokens: 8, pages: 30, states: 5, batchTokens: 32 },
    { folder: normedAfter, dtype: "f32", pageDtype: "f32", pageTokens: 8, pages: 30, states: 5, batchTokens: 32 },
    { folder: mixture, dtype: "f32", pageDtype: "f32", pageTokens: 7, pages: 40, states: 6, batchTokens: 24 },
    { folder: manyExperts, dtype: "bf16", pageDtype: "bf16", pageTokens: 16, pages: 90, states: 6, batchTokens: 40 },
    { folder: quantisedExperts, dtype: "f32", pageDtype: "f32", pageTokens: 8, pages: 30, states: 5, batchTokens: 32 },
    { folder: micro, dtype: "f32", pageDtype: "f16", pageTokens: 5, pages: 60, states: 6, batchTokens: 30 },
    { folder: gguf, dtype: "f32", pageDtype: "f32", pageTokens: 8, pages: 30, states: 5, batchTokens: 32 },
  ];
}

/** Models with packed weights, for int8 activations. */
function packedForms(): Form[] {
  const of = (name: string, form: Omit<Form, "folder">): Form => ({ folder: join(golden, name), ...form });
  return [
    of("qwen3_5-mlx-mixed", { dtype: "f32", pageDtype: "f32", pageTokens: 8, pages: 30, states: 5, batchTokens: 32 }),
    of("qwen3_5-mlx-4bit", { dtype: "f32", pageDtype: "bf16", pageTokens: 64, pages: 60, states: 5, batchTokens: 512 }),
    of("qwen35-q8_0", { dtype: "f16", pageDtype: "f16", pageTokens: 3, pages: 70, states: 6, batchTokens: 33 }),
    of("qwen35-q4_k_m", { dtype: "f32", pageDtype: "f32", pageTokens: 1, pages: 150, states: 7, batchTokens: 9 }),
    of("qwen3_5_moe-mlx", { dtype: "f32", pageDtype: "f32", pageTokens: 7, pages: 40, states: 6, batchTokens: 24 }),
    of("qwen35moe-q4_k_m", { dtype: "bf16", pageDtype: "bf16", pageTokens: 16, pages: 90, states: 6, batchTokens: 40 }),
  ];
}

/** The number of tokens in the longest text of a fixture. */
export const longestText = 1200;

/** Opens all models. */
export async function openFixtures(device: Device, folder: string, products: Products = "exact"): Promise<Fixture[]> {
  const fixtures: Fixture[] = [];
  for (const { folder: path, dtype, pageDtype, pageTokens, pages, states, batchTokens } of products === "int8" ? packedForms() : formsOf(folder)) {
    const model = await LanguageModel.load(device, path, {
      states,
      pages: { count: pages, tokens: pageTokens, dtype: pageDtype },
      dtype,
      batchTokens,
      ...loadedFor(products),
    });
    const room = { count: Math.ceil(longestText / 128), tokens: 128, dtype: pageDtype };
    const cold = await LanguageModel.load(device, path, { states: 1, pages: room, dtype, batchTokens: 2048, ...loadedFor(products) });
    poison(model);
    const name = `${path.slice(path.lastIndexOf("/") + 1)}, ${dtype}, ${pages} pages of ${pageTokens} ${pageDtype}, ${batchTokens} tokens a pass${products === "exact" ? "" : `, ${products}`}`;
    fixtures.push({ name, model, cold, long: pages * pageTokens > longestText });
  }
  return fixtures;
}

/** Fills states and pages with NaN, which reveals reads of memory that was never written. */
function poison(model: LanguageModel): void {
  const { pool, pages } = memoryOf(model);
  const tensors = [
    ...pages.layers.flatMap(({ keys, values }) => [keys, values]),
    ...Array.from({ length: pool.layers }, (_, layer) => [pool.state(layer), pool.conv(layer)]).flat(),
  ];
  for (const { data, dtype } of tensors) data.fill(dtype === "bf16" ? 0x7fc0 : NaN);
}
