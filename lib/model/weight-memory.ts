/** The memory that a model's weights take, known before any of them is read. */
import { totalmem } from "node:os";
import { GatedDeltaError } from "../errors.ts";
import type { TensorSource } from "../checkpoint/source.ts";
import type { Family } from "./families/family.ts";
import type { WeightBytes } from "../checkpoint/tensor-loader.ts";
import { freeMemory, planMemory, sizeText } from "./memory-plan.ts";
import type { PlannedConfig } from "./memory-plan.ts";
import type { LoadModelOptions } from "./model-options.ts";

/**
 * Bytes of the weights of a checkpoint, without those of other parts of released models.
 *
 * @param pause awaited between tensors, which may be in files that have to be opened.
 */
export async function weightBytes(source: TensorSource, family: Family, pause: () => Promise<void>): Promise<number> {
  let bytes = 0;
  for (const name of source.names) {
    if (family.elsewhere.test(name)) continue;
    bytes += source.info(name).bytes;
    await pause();
  }
  return bytes;
}

/**
 * Refuses a model that needs more memory than there is. Mapped weights need none.
 *
 * @param path the folder, for the message.
 * @param beside the model's sizes and the options of its states and pages, if it gets any.
 * @throws {GatedDeltaError} of code `out-of-memory` with both numbers.
 */
export function expectRoom(op: string, path: string, { copied, mapped }: WeightBytes, beside?: readonly [PlannedConfig, LoadModelOptions]): void {
  const most = mostMemory();
  const plan = beside && planMemory(op, ...beside, Math.max(0, most - copied - mapped));
  const others = plan === undefined ? 0 : plan.states.slots * plan.states.bytes + plan.pages.count * plan.pages.bytes;
  if (copied + others <= most) return;
  const parts = [`${sizeText(copied)} for the weights`, ...(mapped > 0 ? [`besides ${sizeText(mapped)} mapped`] : []), ...(plan ? [`${sizeText(others)} for states, keys and values`] : [])];
  const expected = `${sizeText(copied + others)} of free memory: ${parts.join(", ")}`;
  throw new GatedDeltaError("out-of-memory", { op, argument: path, expected, received: sizeText(most) });
}

/** The most that this process can hope for. Other systems than Linux count memory as used that they would free. */
function mostMemory(): number {
  return process.platform === "linux" ? freeMemory() : totalmem();
}
