/**
 * Native handles are integers below 2^53, so they are plain numbers here. They cross as `ptr` arguments, which take a
 * number as it is; `u64` costs several times as much a call.
 */

declare const handleBrand: unique symbol;

/** A device, buffer or plan on the native side. */
export type Handle = number & { readonly [handleBrand]: true };

/** What bun:ffi calls a Pointer. Spelt out, so that the package's declarations compile where Bun's types are missing. */
type Pointer = number & { __pointer__: null };

/** A handle as the argument type of bun:ffi. */
export function asPointer(handle: Handle): Pointer {
  return handle as number as Pointer;
}

/**
 * Where native functions write their results. It lies over an ArrayBuffer of its own: the storage of a small typed
 * array made directly can move under a pointer that native code holds.
 */
const words = new Uint32Array(new ArrayBuffer(16));

/** The first result: pass it as an out-pointer, then read it with {@link firstResult} before anything else runs. */
export const firstOut: Uint32Array = words.subarray(0, 2);
/** The second result; see {@link firstOut}. */
export const secondOut: Uint32Array = words.subarray(2, 4);

/** The u64 that a native function wrote to {@link firstOut}. */
export function firstResult(): number {
  return words[0]! + words[1]! * 2 ** 32;
}

/** The u64 or pointer that a native function wrote to {@link secondOut}. */
export function secondResult(): number {
  return words[2]! + words[3]! * 2 ** 32;
}
