/** What `gated-delta doctor FOLDER` tells of a model's memory. */
import { openCheckpoint } from "../checkpoint/safetensors.ts";
import { readConfig } from "../checkpoint/read-config.ts";
import { importSchemas } from "../model/import-schemas.ts";
import { freeMemory, planMemory } from "../model/memory-plan.ts";
import { parseModelConfig } from "../model/parse-config.ts";

/** What a model takes where its options say nothing; bytes. */
export interface ModelMemoryFindings {
  readonly folder: string;
  /** Free memory, less the weights. */
  readonly free: number;
  readonly weights: number;
  /** States, what all of them take, and pages likewise. */
  readonly states: number;
  readonly stateBytes: number;
  readonly pages: number;
  readonly pageBytes: number;
  readonly pageTokens: number;
}

/**
 * What `LanguageModel.load(device, folder)` would take now.
 *
 * @throws {FileError} and {@link UnsupportedError} as that does, for what the configuration shows.
 */
export async function modelMemory(folder: string): Promise<ModelMemoryFindings> {
  const op = "doctor";
  await importSchemas();
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
