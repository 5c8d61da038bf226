/** The internals of a model, for the other modules of this room. */
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
  /** Memory for the records of guesses. */
  readonly records: DraftMemory;
  readonly weights: ModelWeights;
  readonly identity: ModelIdentity;
  /** Settles when all currently pending runs are over. */
  readonly idle: () => Promise<void>;
  /** Whose turn it is to run. */
  readonly turns: RunTurns;
  /**
   * Runs checked entries as `model.run` does, in the caller's turn. Entries may have guesses, whose verification is ended by
   * {@link verificationOf} their results. When records or pages run short fewer guesses are verified, or none. A failed run
   * leaves sequences with guesses unchanged.
   */
  readonly run: (op: string, entries: readonly Entry[]) => Promise<RunResult[]>;
}

const memories = new WeakMap<object, ModelMemory>();

/** Registers a model's internals. */
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
