/** Memory that a device and JavaScript share, and its release. */
import { createBuffer, releaseBuffer, wrapBuffer, wrapPointer } from "../native/memory.ts";
import type { Handle } from "../native/handle.ts";

/** One buffer. It holds any number of tensors and views, and lives as long as one of them is reachable. */
export interface Storage {
  /** The device that the buffer was made for. */
  readonly device: Handle;
  readonly handle: Handle;
  /** The memory; a copy of it if it is {@link readOnly}. */
  readonly memory: ArrayBufferLike;
  /** The start of the buffer in `memory`; negative if `memory` begins later. */
  readonly byteOffset: number;
  /** Length of the buffer. */
  readonly bytes: number;
  /**
   * Must stay reachable until pending work on this buffer is done; undefined for the library's own memory, which the
   * native side keeps alive.
   */
  readonly owner: unknown;
  /** Whether the memory holds a pool's states, which ops may use only through a step or draft. */
  readonly guarded: boolean;
  /** Whether the memory is a mapped file's, which nothing can write to. */
  readonly readOnly: boolean;
  readonly disposed: boolean;
  dispose(): void;
}

/** The owner of the borrowed memory under an ArrayBuffer: reachable as long as the ArrayBuffer is. */
const owners = new WeakMap<ArrayBuffer, object>();

/** The storage of each adopted buffer, to recognise a typed array over library memory. */
const storages = new WeakMap<ArrayBufferLike, Storage>();

/**
 * The library's own memory. The ArrayBuffer owns the native buffer, so the engine's deallocator frees it exactly once,
 * on disposal or collection, and the garbage collector knows its size. The native side keeps the memory alive for
 * pending work.
 */
class OwnedStorage implements Storage {
  readonly device: Handle;
  readonly handle: Handle;
  readonly memory: ArrayBuffer;
  readonly byteOffset = 0;
  readonly bytes: number;
  readonly owner = undefined;
  guarded = false;
  readonly readOnly = false;

  constructor(device: Handle, bytes: number, op: string) {
    // The engine can't adopt an empty buffer, so an empty tensor gets 4 unused bytes.
    const { handle, memory } = createBuffer(device, Math.max(bytes, 4), op);
    this.device = device;
    this.handle = handle;
    this.memory = memory;
    this.bytes = bytes;
    storages.set(memory, this);
  }

  get disposed(): boolean {
    return this.memory.detached;
  }

  dispose(): void {
    if (!this.memory.detached) this.memory.transfer(0);
  }
}

/** Borrowed memory. Only the native handle is freed here. */
class BorrowedStorage implements Storage {
  static readonly #released = new FinalizationRegistry<Handle>(releaseBuffer);

  readonly device: Handle;
  readonly handle: Handle;
  readonly memory: ArrayBufferLike;
  readonly byteOffset: number;
  readonly bytes: number;
  readonly owner: unknown;
  readonly guarded = false;
  readonly readOnly = false;
  /** Whether the ArrayBuffer was made here, so that disposal may detach it. */
  readonly #detachable: boolean;
  #disposed = false;

  constructor(device: Handle, handle: Handle, bytes: Uint8Array<ArrayBufferLike>, owner: unknown, detachable: boolean) {
    this.device = device;
    this.handle = handle;
    this.memory = bytes.buffer;
    this.byteOffset = bytes.byteOffset;
    this.bytes = bytes.byteLength;
    this.owner = owner;
    this.#detachable = detachable;
    BorrowedStorage.#released.register(this, handle, this);
  }

  get disposed(): boolean {
    return this.#disposed || (this.memory as ArrayBuffer).detached === true;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    BorrowedStorage.#released.unregister(this);
    releaseBuffer(this.handle);
    if (this.#detachable) (this.memory as ArrayBuffer).transfer(0);
  }
}

/** Allocates zeroed memory. */
export function allocateStorage(device: Handle, bytes: number, op: string): Storage {
  return new OwnedStorage(device, bytes, op);
}

/** The storage of a buffer that the library owns, or undefined for any other buffer. */
export function storageBehind(memory: ArrayBufferLike): Storage | undefined {
  return storages.get(memory);
}

/** Borrows a range of the caller's buffer. */
export function borrowStorage(device: Handle, view: Uint8Array<ArrayBufferLike>, op: string): Storage {
  return new BorrowedStorage(device, wrapBuffer(device, view, op), view, view.buffer, false);
}

/** Borrows memory at an address; `owner` keeps it valid. */
export function borrowPointer(device: Handle, pointer: number, bytes: number, owner: object, op: string): Storage {
  const { handle, memory } = wrapPointer(device, pointer, bytes, op);
  owners.set(memory, owner);
  return new BorrowedStorage(device, handle, new Uint8Array(memory), owner, true);
}
