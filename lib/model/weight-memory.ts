/** The memory that a model's weights take, known before any of them is read. */
import { GatedDeltaError } from "../errors.ts";
import type { TensorSource } from "../checkpoint/source.ts";
import type { Family } from "./families/family.ts";
import { freeMemory, sizeText } from "./memory-plan.ts";

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
 * Refuses weights that are larger than the free memory.
 *
 * @throws {GatedDeltaError} of code `out-of-memory` with both numbers.
 */
export function expectRoom(op: string, path: string, bytes: number): void {
  const free = freeMemory();
  if (bytes <= free) return;
  throw new GatedDeltaError("out-of-memory", { op, argument: path, expected: `${sizeText(bytes)} of free memory, for the weights`, received: sizeText(free) });
}
