/**
 * Memory for the index data of one encode call. The native side reads it during the call only, and a caller's own
 * array may not be pointed at: the storage of small typed arrays moves. So index data is copied here first.
 */
import { addressOf } from "./device.ts";

let words = new Int32Array(new ArrayBuffer(16384));
let address = 0; // taken on first use: importing this module must not need the JIT that bun:ffi wants
let used = 0;

/** Starts the index data of a new encode call, which will need `count` elements in all. */
export function beginIndices(count: number): void {
  used = 0;
  if (count > words.length) {
    words = new Int32Array(new ArrayBuffer(Math.max(count, 2 * words.length) * 4));
    address = 0;
  }
  if (address === 0) address = addressOf(words);
}

/**
 * Copies `count` elements in and returns their address, which holds until the next {@link beginIndices}. The count is
 * the one that was checked: a view of growable shared memory may have another length by now.
 */
export function placeIndices(source: Int32Array, count: number): number {
  const at = address + used * 4;
  for (let i = 0; i < count; i++) words[used + i] = source[i]!;
  used += count;
  return at;
}
