/** What a model is made of, as this room's other modules use it. */
import type { DraftMemory } from "../states/draft-memory.ts";
import type { StatePool } from "../states/state-pool.ts";
import type { Entry } from "./batch.ts";
import type { ModelIdentity } from "./identity/model-identity.ts";
import type { LanguageModel } from "./language-model.ts";
import type { ModelWeights } from "./model-weights.ts";
import type { PagePool } from "./page-pool.ts";
import type { RunResult } from "./run-result.ts";
import type { RunTurns } from "./run-turns.ts";

/** A model's states, pages, weights and identity. */
export interface ModelMemory {
  readonly pool: StatePool;
  readonly pages: PagePool;
  /** For the records of guesses that are verified. */
  readonly records: DraftMemory;
  readonly weights: ModelWeights;
  readonly identity: ModelIdentity;
  /** Settles when the runs are over that are pending now. */
  readonly idle: () => Promise<void>;
  /** Whose turn it is to run. */
  readonly turns: RunTurns;
  /**
   * What `model.run` does with entries that were checked, in a turn of the caller's. They may have guesses:
   * {@link verificationOf} of their results ends the verification. Where records or pages are short fewer guesses are verified,
   * or none. A run that fails leaves the sequences that verify as they were.
   */
  readonly run: (op: string, entries: readonly Entry[]) => Promise<RunResult[]>;
}

const memories = new WeakMap<object, ModelMemory>();

/** Notes what a model is made of. */
export function rememberMemory(model: LanguageModel, memory: ModelMemory): void {
  memories.set(model, memory);
}

/** A model's states, pages, weights and identity. */
export function memoryOf(model: LanguageModel): ModelMemory {
  return memories.get(model)!;
}

/** Whether a value is a model. */
export function isModel(value: unknown): value is LanguageModel {
  return typeof value === "object" && value !== null && memories.has(value);
}
