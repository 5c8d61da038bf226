/** Caches, ids and written slots of the fused ops' files. */

import type { OpFile } from "./op-file.ts";

/** Which slot of a cache each sequence reads and writes. */
export interface Ids {
  /** Absent: each reads the slot that it writes. */
  readonly ids: Int32Array | undefined;
  readonly rsHead: number;
}

/** Reads a file's slots: ids if its `op` requires them. The dimension `B` is already bound. */
export function readIds(file: OpFile, withIds: boolean, slots: number): Ids {
  const sequences = file.size("B");
  const rsHead = file.number("rs_head", 0, 0);
  if (!Number.isInteger(rsHead) || rsHead + sequences > slots) {
    throw file.bad(`metadata "rs_head" to leave room for ${sequences} of ${slots} slots`, `${rsHead}`);
  }
  const ids = withIds ? file.integers("ids", ["B"]) : undefined;
  const wrong = ids?.find((id) => id < -1 || id >= slots);
  if (wrong !== undefined) throw file.bad(`ids in -1..${slots - 1}`, `${wrong}`);
  return { ids, rsHead };
}

/** The same, as read slots and write slots of the general ops. */
export function slotsOf({ ids, rsHead }: Ids, sequences: number): { readonly readSlots: Int32Array; readonly writeSlots: Int32Array } {
  const writeSlots = Int32Array.from({ length: sequences }, (_, s) => rsHead + s);
  return { readSlots: ids ?? writeSlots, writeSlots };
}

/** The rows of a cache that no sequence writes. */
export function untouched(cache: Float32Array, rowSize: number, rsHead: number, sequences: number): Float32Array {
  const before = cache.subarray(0, rsHead * rowSize);
  const after = cache.subarray((rsHead + sequences) * rowSize);
  const rest = new Float32Array(before.length + after.length);
  rest.set(before);
  rest.set(after, before.length);
  return rest;
}
