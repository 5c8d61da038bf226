/** The models that schedules under pressure run on: the weights are written once, and loaded with little memory for every schedule. */
import { join } from "node:path";
import type { Device, FloatDType } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { LoadModelOptions } from "../../lib/model.ts";
import { tinyModel, writeTinyModel } from "../support/model-folders.ts";
import type { TinyModel } from "../support/model-folders.ts";
import { loadedFor } from "../support/roles.ts";
import type { Products } from "../support/roles.ts";
import type { Random } from "../support/random.ts";

/** Weights, and the dtypes of states, keys and values. */
export interface Form {
  readonly name: string;
  readonly path: string;
  readonly states: FloatDType;
  readonly pages: FloatDType;
  readonly device: Device;
  readonly products: Products;
  /** A model with the same weights and dtypes that reads one text at a time, whole, in memory that nothing else uses. */
  readonly cold: LanguageModel;
}

const forms: readonly { readonly name: string; readonly change: Partial<TinyModel>; readonly states?: FloatDType; readonly pages: FloatDType }[] = [
  { name: "three layers", change: {}, pages: "f32" },
  { name: "pages of f16", change: { layers: "gga", dtype: "bf16", valueHeads: 2, tied: true }, pages: "f16" },
  { name: "pages of bf16", change: { layers: "ag" }, pages: "bf16" },
  { name: "no attention", change: { layers: "gg", convWidth: 2 }, pages: "f32" },
  { name: "states of f16", change: { layers: "ga" }, states: "f16", pages: "f32" },
  { name: "states of bf16", change: {}, states: "bf16", pages: "bf16" },
];

/** No text is longer, except those that are refused. */
const longestText = 256;

/** Writes all weights to `folder`, and opens the models of the cold runs. */
export async function openForms(device: Device, folder: string, products: Products): Promise<Form[]> {
  const opened: Form[] = [];
  for (const [i, { name, change, states = "f32", pages }] of forms.entries()) {
    const path = writeTinyModel(join(folder, `pressed-${i}`), { ...tinyModel, ...change }, i + 1);
    const cold = await LanguageModel.load(device, path, { ...loadedFor(products), states: { slots: 1, dtype: states }, pages: { count: longestText / 32, tokens: 32, dtype: pages } });
    opened.push({ name, path, states, pages, device, products, cold });
  }
  return opened;
}

/** A model with little memory. */
export interface Pressed {
  readonly form: Form;
  readonly model: LanguageModel;
  /** How long a session's text may become, in tokens, so that the memory holds 1 to 4 such texts. */
  readonly longest: number;
  /** How many tokens all pages hold; infinite if there are no pages. */
  readonly capacity: number;
  /** The number of prompt tokens in a step in which sessions generate. */
  readonly promptTokens: number;
  /** Whether two runs of the same tokens give the same bits. */
  readonly exact: boolean;
  /** The options that the model was loaded with, for messages. */
  readonly text: string;
}

/** Loads a model with memory for 1 to 4 sessions at a time. */
export async function pressedModel(forms: readonly Form[], random: Random): Promise<Pressed> {
  const form = random.pick(forms);
  const longest = 12 + random.below(37);
  const tokens = random.pick([1, 2, 3, 4, 8]);
  const slots = 1 + random.below(4);
  const count = Math.ceil(longest / tokens) * (1 + random.below(slots)) + random.below(3);
  const options: LoadModelOptions = {
    ...loadedFor(form.products),
    states: { slots, dtype: form.states },
    pages: { count, tokens, dtype: form.pages },
    batchTokens: random.pick([8, 16, 24, 64]),
    promptTokens: random.pick([2, 4, 8, 16]),
    // Copies of idle sessions stay in this memory until the end of the schedule: it has room for all of them.
    swap: 2 ** 28,
  };
  const model = await LanguageModel.load(form.device, form.path, options);
  const capacity = model.pages === 0 ? Infinity : model.pages * tokens;
  return { form, model, longest, capacity, promptTokens: options.promptTokens!, exact: form.states === "f32", text: `${form.name}, ${JSON.stringify(options)}` };
}
