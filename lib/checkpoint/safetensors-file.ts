/** Reads one safetensors file: the header, and the bytes of tensors on demand. The file may be of any size. */
import { closeSync } from "node:fs";
import { resolve } from "node:path";
import { BoundsError, DisposedError, FileError, GatedDeltaError, ShapeError, UnsupportedError, describe } from "../errors.ts";
import { safetensorsDTypes } from "./dtypes.ts";
import type { FloatArray } from "./dtypes.ts";
import { stampOf, stampText } from "./file-stamp.ts";
import type { FileStamp } from "./file-stamp.ts";
import { foreignKind, headBytes } from "./foreign.ts";
import { longestHeader, parseHeader } from "./header.ts";
import type { Header, TensorInfo } from "./header.ts";
import { FormatError } from "./json.ts";
import { openRegularFile, readFully, readFullyAsync } from "./regular-file.ts";
import { PrefixedNames } from "./source.ts";
import type { TensorSource } from "./source.ts";

/** The place of a tensor's bytes. */
export interface TensorPlace {
  /** The same object for all tensors of a file. */
  readonly file: FileOrigin;
  /** The tensor's first byte in the file. */
  readonly position: number;
}

/** The file that an open {@link SafetensorsFile} reads. */
export interface FileOrigin {
  /** Its descriptor, as long as it is open. */
  readonly descriptor: number;
  /** Its tensors: their names, first bytes in the file, and lengths. */
  readonly ranges: () => Iterable<readonly [name: string, range: { readonly offset: number; readonly bytes: number }]>;
  /** Absolute. */
  readonly path: string;
  /** Its stamp before the first read. */
  readonly stamp: FileStamp;
  /** Whether an open file still has that stamp. */
  readonly unchanged: () => boolean;
}

/** The place of a tensor in an open file. */
export let placeInFile: (file: SafetensorsFile, name: string) => TensorPlace;

/** Closes files that were garbage-collected without being disposed. */
const forgotten = new FinalizationRegistry<number>((descriptor) => closeSync(descriptor));

/**
 * Opens a safetensors file and checks its header.
 *
 * The file is kept open, so that replacing it by a rename does not mix two versions; dispose it (`using`) when done.
 *
 * @param path a regular file.
 * @param op the call that errors name, also errors of later reads. @default this function, then the file's methods
 * @throws {FileError} if it is missing, not a regular file, damaged, or its header does not fit its contents.
 */
export function openSafetensors(path: string, op?: string): SafetensorsFile {
  return new SafetensorsFile(path, op);
}

/** An open safetensors file; see {@link openSafetensors}. */
export class SafetensorsFile implements TensorSource {
  readonly path: string;
  readonly #header: Header;
  readonly #dataStart: number;
  readonly #names: PrefixedNames;
  readonly #origin: FileOrigin;
  /** The call that errors name; undefined if they name the file's own methods. */
  readonly #op: string | undefined;
  #descriptor: number | undefined;

  constructor(path: string, caller?: string) {
    this.#op = caller;
    const op = caller ?? "openSafetensors";
    if (typeof path !== "string") {
      throw new GatedDeltaError("invalid-argument", { op, argument: "path", expected: "a string", received: describe(path) });
    }
    const { descriptor, size } = openRegularFile(path, op);
    try {
      const stamp = stampOf(descriptor);
      this.#origin = {
        path: resolve(path),
        descriptor,
        stamp,
        unchanged: () => stampText(stampOf(descriptor)) === stampText(stamp),
        ranges: () => this.#ranges(),
      };
      const { header, dataStart } = readHeader(path, descriptor, size, op);
      this.path = path;
      this.#header = header;
      this.#names = new PrefixedNames(header.tensors);
      this.#dataStart = dataStart;
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
    this.#descriptor = descriptor;
    forgotten.register(this, descriptor, this);
  }

  static {
    placeInFile = (file, name) => ({ file: file.#origin, position: file.#dataStart + file.info(name).offset });
  }

  get names(): readonly string[] {
    return this.#names.all;
  }

  namesWithPrefix(prefix: string): readonly string[] {
    return this.#names.withPrefix(prefix);
  }

  get metadata(): ReadonlyMap<string, string> {
    return this.#header.metadata;
  }

  has(name: string): boolean {
    return this.#header.tensors.has(name);
  }

  info(name: string): TensorInfo {
    const info = this.#header.tensors.get(name);
    if (info === undefined) {
      throw new FileError(this.path, { op: this.#op ?? "read", expected: `a tensor ${describe(name)}`, received: "a file without it" });
    }
    return info;
  }

  read(name: string): Uint8Array<ArrayBuffer> {
    const { bytes } = this.info(name);
    const target = allocate(bytes, this.path, name, this.#op ?? "read");
    this.readSlice(name, 0, target);
    return target;
  }

  readInto(name: string, target: Uint8Array): void {
    const { bytes } = this.info(name);
    if (target.byteLength !== bytes) {
      const expected = `${bytes} bytes, the size of tensor ${describe(name)}`;
      throw new ShapeError({ op: this.#op ?? "readInto", argument: "target", expected, received: `${target.byteLength}` });
    }
    this.readSlice(name, 0, target);
  }

  readSlice(name: string, from: number, target: Uint8Array): void {
    const { descriptor, position } = this.#place(name, from, target);
    readFully(this.path, descriptor, position, target, this.#op);
  }

  async readSliceAsync(name: string, from: number, target: Uint8Array): Promise<void> {
    const { descriptor, position } = this.#place(name, from, target);
    await readFullyAsync(this.path, descriptor, position, target, this.#op);
  }

  floats(name: string): FloatArray {
    const { dtype } = this.info(name);
    const { decode } = safetensorsDTypes[dtype];
    if (decode === undefined) {
      const expected = `a dtype that is one real number an element, for tensor ${describe(name)}`;
      throw new UnsupportedError({ op: this.#op ?? "floats", argument: this.path, expected, received: dtype });
    }
    return decode(this.read(name));
  }

  float32(name: string): Float32Array<ArrayBuffer> {
    const values = this.floats(name);
    return values instanceof Float32Array ? values : new Float32Array(values);
  }

  float64(name: string): Float64Array<ArrayBuffer> {
    const values = this.floats(name);
    return values instanceof Float64Array ? values : new Float64Array(values);
  }

  *#ranges(): Iterable<[string, { offset: number; bytes: number }]> {
    for (const [name, { offset, bytes }] of this.#header.tensors) yield [name, { offset: this.#dataStart + offset, bytes }];
  }

  /** The place of part of a tensor. */
  #place(name: string, from: number, target: Uint8Array): { descriptor: number; position: number } {
    const { offset, bytes } = this.info(name);
    const descriptor = this.#descriptor;
    if (descriptor === undefined) {
      throw new DisposedError({ op: this.#op ?? "read", argument: this.path, expected: "an open file", received: "a closed one" });
    }
    if (!Number.isSafeInteger(from) || from < 0 || from + target.byteLength > bytes) {
      const expected = `bytes within tensor ${describe(name)} of ${bytes}`;
      throw new BoundsError({ op: this.#op ?? "readSlice", argument: "from", expected, received: `${from} to ${from + target.byteLength}` });
    }
    return { descriptor, position: this.#dataStart + offset + from };
  }

  /** Closes the file; names and infos stay readable. Closing twice does nothing. */
  [Symbol.dispose](): void {
    const descriptor = this.#descriptor;
    if (descriptor === undefined) return;
    this.#descriptor = undefined;
    forgotten.unregister(this);
    closeSync(descriptor);
  }
}

function readHeader(path: string, descriptor: number, size: number, op: string): { header: Header; dataStart: number } {
  const head = new Uint8Array(Math.min(size, headBytes));
  readFully(path, descriptor, 0, head, op);
  const length = size < 8 ? 0n : new DataView(head.buffer).getBigUint64(0, true);
  // No file of another format begins with a length within the limit: its bytes 4 to 7 would be zero.
  if (size < 8 || length > BigInt(longestHeader)) {
    const kind = foreignKind(head);
    if (kind !== undefined) throw new FileError(path, { op, expected: "a safetensors file", received: kind });
    if (size < 8) throw new FileError(path, { op, expected: "at least 8 bytes", received: `${size}` });
    throw new FileError(path, { op, expected: `a header of at most ${longestHeader} bytes`, received: `${length}` });
  }
  const dataStart = 8 + Number(length);
  if (dataStart > size) {
    const expected = `a file of at least ${dataStart} bytes, as its header's length says`;
    throw new FileError(path, { op, expected, received: `${size}` });
  }
  const json = new Uint8Array(Number(length));
  readFully(path, descriptor, 8, json, op);
  try {
    return { header: parseHeader(json, size - dataStart), dataStart };
  } catch (cause) {
    if (!(cause instanceof FormatError)) throw cause;
    throw new FileError(path, { op, expected: cause.expected, received: cause.received });
  }
}

function allocate(bytes: number, path: string, name: string, op: string): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    const message = `tensor ${describe(name)} of ${bytes} bytes does not fit in one array; read it in slices`;
    throw new GatedDeltaError("out-of-memory", { op, argument: path, message, cause });
  }
}
