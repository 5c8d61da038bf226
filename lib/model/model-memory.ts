/** Access to the core of a model's public class, for other modules of this room. */
import type { LanguageModel } from "./language-model.ts";
import type { ModelCore } from "./model-core.ts";

const cores = new WeakMap<object, ModelCore>();

/** Registers a model's core. */
export function rememberMemory(model: LanguageModel, core: ModelCore): void {
  cores.set(model, core);
}

/** A model's core: its memory and its runs. */
export function memoryOf(model: LanguageModel): ModelCore {
  return cores.get(model)!;
}

/** Whether a value is a model. */
export function isModel(value: unknown): value is LanguageModel {
  return typeof value === "object" && value !== null && cores.has(value);
}
