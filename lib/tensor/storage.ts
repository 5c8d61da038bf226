/** Memory that a device and JavaScript see at once, and who frees it. */
import { createBuffer, releaseBuffer, wrapBuffer, wrapPointer } from "../native/memory.ts";
import type { Handle } from "../native/handle.ts";

/** One buffer. Any number of tensors and views lie in it; it lives as long as any of them is reachable. */
export interface Storage {
  /** The device that the buffer was made for. */
  readonly device: Handle;
  readonly handle: Handle;
  readonly memory: ArrayBufferLike;
  /** Where the buffer starts in `memory`. */
  readonly byteOffset: number;
  /** Length of the buffer. */
  readonly bytes: number;
  /**
   * What must stay reachable until pending work on this buffer is done; undefined for the library's own memory, which
   * the native side keeps alive by itself.
   */
  readonly owner: unknown;
  /** Whether it holds a pool's states, which ops reach through a step or draft only. */
  readonly guarded: boolean;
  readonly disposed: boolean;
  dispose(): void;
}

/** What keeps the memory under an ArrayBuffer over borrowed memory valid: reachable as long as the ArrayBuffer is. */
const owners = new WeakMap<ArrayBuffer, object>();

/** The storage of each adopted buffer, to recognise a typed array over library memory. */
const storages = new WeakMap<ArrayBufferLike, Storage>();

/**
 * The library's own memory. The ArrayBuffer owns the native buffer, so that both disposal and collection free it
 * through the engine's deallocator, exactly once, and the engine knows how much memory is at stake. Pending work keeps
 * the memory alive natively.
 */
class OwnedStorage implements Storage {
  readonly device: Handle;
  readonly handle: Handle;
  readonly memory: ArrayBuffer;
  readonly byteOffset = 0;
  readonly bytes: number;
  readonly owner = undefined;
  guarded = false;

  constructor(device: Handle, bytes: number, op: string) {
    // An ArrayBuffer of no bytes can't be adopted: an empty tensor gets one element's worth that nobody sees.
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

/** Memory of somebody else's. Only the native handle is ours to free. */
class BorrowedStorage implements Storage {
  static readonly #released = new FinalizationRegistry<Handle>(releaseBuffer);

  readonly device: Handle;
  readonly handle: Handle;
  readonly memory: ArrayBufferLike;
  readonly byteOffset: number;
  readonly bytes: number;
  readonly owner: unknown;
  readonly guarded = false;
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

/** The storage behind a buffer of the library's own, or undefined for any other buffer. */
export function storageBehind(memory: ArrayBufferLike): Storage | undefined {
  return storages.get(memory);
}

/** Borrows a range of a buffer of the caller's. */
export function borrowStorage(device: Handle, view: Uint8Array<ArrayBufferLike>, op: string): Storage {
  return new BorrowedStorage(device, wrapBuffer(device, view, op), view, view.buffer, false);
}

/** Borrows memory at an address; `owner` is what keeps it valid. */
export function borrowPointer(device: Handle, pointer: number, bytes: number, owner: object, op: string): Storage {
  const { handle, memory } = wrapPointer(device, pointer, bytes, op);
  owners.set(memory, owner);
  return new BorrowedStorage(device, handle, new Uint8Array(memory), owner, true);
}
