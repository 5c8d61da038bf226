/** Native memory, and JavaScript's views of it. */
import { toArrayBuffer } from "bun:ffi";
import type { Pointer } from "bun:ffi";
import { asPointer, firstOut, firstResult, secondOut, secondResult } from "./handle.ts";
import type { Handle } from "./handle.ts";
import { library } from "./library.ts";
import { check } from "./status.ts";

/** Bun's type declarations lack the context and the deallocator. */
type Adopt = (pointer: number, offset: number, bytes: number, context?: number, deallocator?: number) => ArrayBuffer;
const adopt = toArrayBuffer as unknown as Adopt;

let deallocator: number | undefined;

/** The address of `gd_buffer_deallocate`, which the engine calls when an adopted buffer is detached or collected. */
function deallocatorAddress(): number {
  return (deallocator ??= (library().gd_buffer_deallocate as unknown as { ptr: number }).ptr);
}

/** A native buffer and the same memory as an ArrayBuffer. */
export interface NativeBuffer {
  readonly handle: Handle;
  readonly memory: ArrayBuffer;
}

/**
 * Allocates zeroed memory and adopts it. The ArrayBuffer owns the handle: detaching or collecting it releases the buffer
 * exactly once.
 *
 * @param bytes at least 1: the engine refuses to adopt an empty buffer.
 */
export function createBuffer(device: Handle, bytes: number, op: string): NativeBuffer {
  const native = library();
  check(native.gd_buffer_create(asPointer(device), bytes, firstOut as never, secondOut as never), op);
  const handle = firstResult() as Handle;
  const pointer = secondResult();
  return { handle, memory: adopt(pointer, 0, bytes, handle, deallocatorAddress()) };
}

/** Borrows the caller's memory for a device. The memory must not move until the handle is released. */
export function wrapBuffer(device: Handle, view: Uint8Array<ArrayBufferLike>, op: string): Handle {
  const status = library().gd_buffer_wrap(asPointer(device), view as never, view.byteLength, firstOut as never);
  check(status, op);
  return firstResult() as Handle;
}

/** Borrows memory at an address for a device and returns a view of it; detaching the view frees nothing. */
export function wrapPointer(device: Handle, pointer: number, bytes: number, op: string): NativeBuffer {
  const status = library().gd_buffer_wrap(asPointer(device), pointer as Pointer, bytes, firstOut as never);
  check(status, op);
  const handle = firstResult() as Handle;
  return { handle, memory: adopt(pointer, 0, bytes) };
}

/** Releases a borrowed buffer. Releasing it again is refused natively and does nothing. */
export function releaseBuffer(handle: Handle): void {
  library().gd_buffer_release(asPointer(handle));
}
