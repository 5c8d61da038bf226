/** Native memory, and JavaScript's views of it. */
import { toArrayBuffer } from "bun:ffi";
import type { Pointer } from "bun:ffi";
import { asPointer, firstOut, firstResult, secondOut, secondResult } from "./handle.ts";
import type { Handle } from "./handle.ts";
import { structs } from "./layout.ts";
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

/** A range of a file. */
export interface FileRange {
  /** Bytes from the start of the file. */
  readonly offset: number;
  readonly bytes: number;
}

/** A file that is open for reading; `path` is for messages. */
export interface OpenFile {
  readonly path: string;
  readonly descriptor: number;
}

/**
 * Maps ranges of a file for reading. Returns for each a buffer and the address of its first byte. The descriptor can be
 * closed afterwards.
 */
export function mapFile(device: Handle, { path, descriptor }: OpenFile, ranges: readonly FileRange[], op: string): { handle: Handle; pointer: number }[] {
  if (ranges.length === 0) return [];
  const { size, offsets } = structs.gd_window;
  const windows = new DataView(new ArrayBuffer(size * ranges.length));
  for (const [i, { offset, bytes }] of ranges.entries()) {
    windows.setBigUint64(i * size + offsets.offset, BigInt(offset), true);
    windows.setBigUint64(i * size + offsets.bytes, BigInt(bytes), true);
  }
  const text = new TextEncoder().encode(`${path}\0`);
  check(library().gd_file_map(asPointer(device), descriptor, text as never, windows as never, ranges.length), op);
  const numberAt = (at: number): number => Number(windows.getBigUint64(at, true));
  return ranges.map((_, i) => ({
    handle: numberAt(i * size + offsets.buffer) as Handle,
    pointer: numberAt(i * size + offsets.pointer),
  }));
}

/** A place in a mapped buffer. */
export interface Piece {
  readonly buffer: Handle;
  /** Bytes from the start of the buffer. */
  readonly offset: number;
}

/** A buffer of several pieces of mapped buffers, `bytes` each. */
export function joinBuffers(device: Handle, pieces: readonly Piece[], bytes: number, op: string): Handle {
  const { size, offsets } = structs.gd_piece;
  const list = new DataView(new ArrayBuffer(size * pieces.length));
  for (const [i, { buffer, offset }] of pieces.entries()) {
    list.setBigUint64(i * size + offsets.buffer, BigInt(buffer), true);
    list.setBigUint64(i * size + offsets.offset, BigInt(offset), true);
  }
  check(library().gd_buffer_join(asPointer(device), list as never, pieces.length, bytes, firstOut as never), op);
  return firstResult() as Handle;
}

/** A view of memory at an address. It must not be used longer than that memory is valid. */
export function viewOf(pointer: number, bytes: number): ArrayBuffer {
  return adopt(pointer, 0, bytes);
}

/** Releases a borrowed or mapped buffer. Releasing it again is refused natively and does nothing. */
export function releaseBuffer(handle: Handle): void {
  library().gd_buffer_release(asPointer(handle));
}
