/**
 * Memory for the index data of one encode call, which the native side reads only during the call. Index data is copied
 * here because the storage of a caller's small typed array can move.
 */
import { addressOf } from "./device.ts";

let words = new Int32Array(new ArrayBuffer(16384));
let address = 0; // read on first use: importing this module must not need the JIT that bun:ffi requires
let used = 0;

/** Starts the index data of a new encode call, with `count` elements in total. */
export function beginIndices(count: number): void {
  used = 0;
  if (count > words.length) {
    words = new Int32Array(new ArrayBuffer(Math.max(count, 2 * words.length) * 4));
    address = 0;
  }
  if (address === 0) address = addressOf(words);
}

/**
 * Copies `count` elements in and returns their address, which is valid until the next {@link beginIndices}. `count` is
 * the checked length: a view of growable shared memory may have another length now.
 */
export function placeIndices(source: Int32Array, count: number): number {
  const at = address + used * 4;
  for (let i = 0; i < count; i++) words[used + i] = source[i]!;
  used += count;
  return at;
}
