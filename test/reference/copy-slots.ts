/** Slot `writeSlots[i]` of a pool gets the previous contents of slot `readSlots[i]`; -1 reads zeros. */
import { readSlot, writeSlot } from "./batch.ts";
import { copyOf, sizeOf } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** The pool after the copies. */
export function copySlots(pool: Reference, readSlots: readonly number[], writeSlots: readonly number[]): Reference {
  const after = copyOf(pool);
  const size = sizeOf(pool.shape.slice(1));
  for (const [i, to] of writeSlots.entries()) writeSlot(after.data, to, readSlot(pool.data, readSlots[i]!, size));
  return after;
}
