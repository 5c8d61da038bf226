/** Memory of tensors that lie in mapped files. */
import type { Handle } from "../native/handle.ts";
import { constants } from "../native/layout.ts";
import { joinBuffers, mapFile, releaseBuffer, viewOf } from "../native/memory.ts";
import type { FileRange, OpenFile } from "../native/memory.ts";
import type { Storage } from "./storage.ts";

/** A device's {@link FileMapping}. */
export const fileMapping: unique symbol = Symbol("file mapping");

/** Windows begin at multiples of this many bytes: Apple silicon's page, and a multiple of the others. */
export const windowAlignment = 16384;

/** Maps files into a device's memory. */
export class FileMapping {
  readonly #device: Handle;
  /** Bytes of the longest window. */
  readonly largest: number;

  constructor(device: Handle, largest: number) {
    this.#device = device;
    this.largest = largest;
  }

  /**
   * Maps ranges of a file for reading.
   *
   * @param ranges begin at multiples of {@link windowAlignment}, and are at most {@link largest} bytes long.
   * @throws {FileError} for a file that cannot be mapped; nothing is mapped then.
   */
  map(op: string, file: OpenFile, ranges: readonly FileRange[]): FileWindow[] {
    return mapFile(this.#device, file, ranges, op).map(({ handle, pointer }, i) => new FileWindow(this.#device, handle, pointer, ranges[i]!));
  }

  /**
   * The memory of pieces, as if they followed one another, for the weight of an `expertLinear`.
   *
   * @param bytes of each piece.
   * @returns undefined if they cannot be joined: their offsets differ modulo 4, or they are in too many windows.
   */
  join(op: string, pieces: readonly WindowPiece[], bytes: number): Storage | undefined {
    if (new Set(pieces.map(({ window }) => window)).size > constants.GD_JOINED_BUFFERS) return undefined;
    if (new Set(pieces.map(({ offset, window }) => (offset - window.range.offset) % 4)).size > 1) return undefined;
    return new JoinedStorage(this.#device, pieces, bytes, op);
  }
}

/** A place in a window. */
export interface WindowPiece {
  readonly window: FileWindow;
  /** Bytes from the start of the file. */
  readonly offset: number;
}

/** A mapped range of a file. It is released when its maker and all storages in it are disposed, or when they are collected. */
export class FileWindow implements Disposable {
  static readonly #released = new FinalizationRegistry<Handle>(releaseBuffer);

  readonly device: Handle;
  readonly handle: Handle;
  readonly range: FileRange;
  readonly #pointer: number;
  /** The maker and the storages. */
  #users = 1;

  constructor(device: Handle, handle: Handle, pointer: number, range: FileRange) {
    this.device = device;
    this.handle = handle;
    this.range = range;
    this.#pointer = pointer;
    FileWindow.#released.register(this, handle, this);
  }

  /** Whether the window holds all bytes of a range. */
  holds({ offset, bytes }: FileRange): boolean {
    return offset >= this.range.offset && offset + bytes <= this.range.offset + this.range.bytes;
  }

  /** The memory of a range that the window {@link holds}. */
  storage({ offset, bytes }: FileRange): Storage {
    this.#users++;
    return new MappedStorage(this, offset - this.range.offset, bytes);
  }

  /** A copy of some of the window's bytes. */
  copy(at: number, bytes: number): ArrayBuffer {
    return viewOf(this.#pointer + at, bytes).slice();
  }

  /** Ends one use. */
  [Symbol.dispose](): void {
    this.#users--;
    if (this.#users > 0) return;
    FileWindow.#released.unregister(this);
    releaseBuffer(this.handle);
  }
}

/** Some bytes of a window. The native side keeps a released window for pending work. */
class MappedStorage implements Storage {
  readonly device: Handle;
  readonly handle: Handle;
  readonly byteOffset: number;
  readonly bytes: number;
  readonly owner = undefined;
  readonly guarded = false;
  readonly readOnly = true;
  readonly #window: FileWindow;
  readonly #at: number;
  #disposed = false;

  constructor(window: FileWindow, at: number, bytes: number) {
    this.device = window.device;
    this.handle = window.handle;
    this.byteOffset = -at; // `memory` begins inside the buffer
    this.bytes = bytes;
    this.#window = window;
    this.#at = at;
  }

  /** A copy, whose elements are aligned and which the caller can write to. */
  get memory(): ArrayBuffer {
    return this.#window.copy(this.#at, this.bytes);
  }

  get disposed(): boolean {
    return this.#disposed;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#window[Symbol.dispose]();
  }
}

/** Joined pieces of windows. The native side keeps released windows for the join, and the join for pending work. */
class JoinedStorage implements Storage {
  static readonly #released = new FinalizationRegistry<Handle>(releaseBuffer);

  readonly device: Handle;
  readonly handle: Handle;
  readonly byteOffset = 0;
  readonly bytes: number;
  readonly owner = undefined;
  readonly guarded = false;
  readonly readOnly = true;
  readonly #pieces: readonly WindowPiece[];
  /** A use of each window. */
  readonly #uses: readonly Storage[];
  #disposed = false;

  constructor(device: Handle, pieces: readonly WindowPiece[], bytes: number, op: string) {
    this.device = device;
    this.handle = joinBuffers(device, pieces.map(({ window, offset }) => ({ buffer: window.handle, offset: offset - window.range.offset })), bytes, op);
    this.bytes = pieces.length * bytes;
    this.#pieces = pieces;
    this.#uses = [...new Set(pieces.map(({ window }) => window))].map((window) => window.storage(window.range));
    JoinedStorage.#released.register(this, this.handle, this);
  }

  /** A copy, one piece after another. */
  get memory(): ArrayBuffer {
    const each = this.bytes / this.#pieces.length;
    const copy = new Uint8Array(this.bytes);
    for (const [i, { window, offset }] of this.#pieces.entries()) copy.set(new Uint8Array(window.copy(offset - window.range.offset, each)), i * each);
    return copy.buffer;
  }

  get disposed(): boolean {
    return this.#disposed;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    JoinedStorage.#released.unregister(this);
    releaseBuffer(this.handle);
    for (const use of this.#uses) use.dispose();
  }
}
