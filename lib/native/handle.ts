/**
 * Native handles are integers below 2^53, so they are plain numbers here. They are passed as `ptr` arguments, which take
 * a number directly; `u64` makes a call several times as expensive.
 */

declare const handleBrand: unique symbol;

/** A device, buffer or plan on the native side. */
export type Handle = number & { readonly [handleBrand]: true };

/** bun:ffi's Pointer, spelt out so that the package's declarations compile without Bun's types. */
type Pointer = number & { __pointer__: null };

/** A handle as the argument type of bun:ffi. */
export function asPointer(handle: Handle): Pointer {
  return handle as number as Pointer;
}

/**
 * Native functions write their results here. It has an explicit ArrayBuffer, because the storage of a small typed array
 * can move while native code holds a pointer to it.
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
