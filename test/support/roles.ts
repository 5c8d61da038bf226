/** Tokens with their roles, for schedules of models whose bits depend on them: a generated token has a mark added to its id. */
import type { ActivationForm } from "../../lib/index.ts";
import type { LanguageModel, Prompts, TokenRole } from "../../lib/model.ts";
import { memoryOf } from "../../lib/model/model-memory.ts";

/** How a model multiplies: as by default, with int8 activations, or prompts with matrix units. */
export type Products = "exact" | "int8" | "matrix";

/** The options of `LanguageModel.load` for this. */
export function loadedFor(products: Products): { readonly activations: ActivationForm; readonly prompts: Prompts } {
  return { activations: products === "int8" ? "int8" : "exact", prompts: products === "matrix" ? "matrix" : "exact" };
}

const mark = 2 ** 31;

/** Tokens of a role as they appear in texts: generated ones are marked if the model's bits depend on the role. */
export function ofRole(model: LanguageModel, role: TokenRole, tokens: readonly number[]): readonly number[] {
  return role === "generated" && memoryOf(model).byRole ? tokens.map((token) => token + mark) : tokens;
}

/** The ids of a text's tokens, without marks. */
export const plain = (text: readonly number[]): number[] => text.map((token) => token % mark);

/** A text's runs of tokens of one role, in order, with their ids. */
export function runsOf(text: readonly number[]): { readonly role: TokenRole; readonly tokens: readonly number[] }[] {
  const runs: { role: TokenRole; tokens: number[] }[] = [];
  for (const token of text) {
    const role = token < mark ? "read" : "generated";
    if (runs.at(-1)?.role !== role) runs.push({ role, tokens: [] });
    runs.at(-1)!.tokens.push(token % mark);
  }
  return runs;
}
