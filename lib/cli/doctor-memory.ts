/** A model's memory, for `gated-delta doctor FOLDER`. */
import { openCheckpoint } from "../checkpoint/safetensors.ts";
import { readConfig } from "../checkpoint/read-config.ts";
import { importZod } from "../arguments/import-zod.ts";
import { freeMemory, planMemory } from "../model/memory-plan.ts";
import { parseModelConfig } from "../model/parse-config.ts";

/** The memory of a model with default options, in bytes. */
export interface ModelMemoryFindings {
  readonly folder: string;
  /** Free memory minus the weights. */
  readonly free: number;
  readonly weights: number;
  /** Number of states and their bytes, then the same for pages. */
  readonly states: number;
  readonly stateBytes: number;
  readonly pages: number;
  readonly pageBytes: number;
  readonly pageTokens: number;
}

/**
 * The memory that `LanguageModel.load(device, folder)` would take now.
 *
 * @throws {FileError} and {@link UnsupportedError} as `load` does for a configuration.
 */
export async function modelMemory(folder: string): Promise<ModelMemoryFindings> {
  const op = "doctor";
  await importZod();
  using source = openCheckpoint(folder, op);
  const { config: json, path } = readConfig(source, undefined, op);
  const { config } = parseModelConfig(json, { path, op });
  let weights = 0;
  for (const name of source.names) weights += source.info(name).bytes;
  const free = Math.max(0, freeMemory() - weights);
  const { states, pages } = planMemory(op, config, {}, free);
  return {
    folder,
    free,
    weights,
    states: states.slots,
    stateBytes: states.slots * states.bytes,
    pages: pages.count,
    pageBytes: pages.count * pages.bytes,
    pageTokens: pages.tokens,
  };
}
