/** Reads one safetensors file. Only the header and what is asked for are read; the file may be of any size. */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { BoundsError, DisposedError, FileError, GatedDeltaError, ShapeError, UnsupportedError, describe } from "../errors.ts";
import { safetensorsDTypes } from "./dtypes.ts";
import type { FloatArray } from "./dtypes.ts";
import { longestHeader, parseHeader } from "./header.ts";
import type { Header, TensorInfo } from "./header.ts";
import { ScanError } from "./scanner.ts";
import type { TensorSource } from "./source.ts";

/** One read call's bytes: below the 2 GiB that a system call may take. */
const mostPerRead = 2 ** 30;

const op = "openSafetensors";

/** Closes the files of those who forget to. */
const forgotten = new FinalizationRegistry<number>((descriptor) => closeSync(descriptor));

/**
 * Opens a safetensors file and checks its header.
 *
 * The file is kept open, so that replacing it by a rename does not mix two versions; dispose it (`using`) when done.
 *
 * @param path a regular file.
 * @throws {FileError} if it is missing, no regular file, damaged, or lies about its contents.
 */
export function openSafetensors(path: string): SafetensorsFile {
  return new SafetensorsFile(path);
}

/** An open safetensors file; see {@link openSafetensors}. */
export class SafetensorsFile implements TensorSource {
  readonly path: string;
  readonly #header: Header;
  readonly #dataStart: number;
  #descriptor: number | undefined;

  constructor(path: string) {
    if (typeof path !== "string") {
      throw new GatedDeltaError("invalid-argument", { op, argument: "path", expected: "a string", received: describe(path) });
    }
    const { descriptor, size } = openRegularFile(path, op);
    try {
      const { header, dataStart } = readHeader(path, descriptor, size);
      this.path = path;
      this.#header = header;
      this.#dataStart = dataStart;
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
    this.#descriptor = descriptor;
    forgotten.register(this, descriptor, this);
  }

  get names(): readonly string[] {
    return [...this.#header.tensors.keys()];
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
      throw new FileError(this.path, { op: "read", expected: `a tensor ${describe(name)}`, received: "a file without it" });
    }
    return info;
  }

  read(name: string): Uint8Array<ArrayBuffer> {
    const { bytes } = this.info(name);
    const target = allocate(bytes, this.path, name);
    this.readSlice(name, 0, target);
    return target;
  }

  readInto(name: string, target: Uint8Array): void {
    const { bytes } = this.info(name);
    if (target.byteLength !== bytes) {
      const expected = `${bytes} bytes, the size of tensor ${describe(name)}`;
      throw new ShapeError({ op: "readInto", argument: "target", expected, received: `${target.byteLength}` });
    }
    this.readSlice(name, 0, target);
  }

  readSlice(name: string, from: number, target: Uint8Array): void {
    const { offset, bytes } = this.info(name);
    const descriptor = this.#descriptor;
    if (descriptor === undefined) {
      throw new DisposedError({ op: "read", argument: this.path, expected: "an open file", received: "a closed one" });
    }
    if (!Number.isSafeInteger(from) || from < 0 || from + target.byteLength > bytes) {
      const expected = `bytes within tensor ${describe(name)} of ${bytes}`;
      throw new BoundsError({ op: "readSlice", argument: "from", expected, received: `${from} to ${from + target.byteLength}` });
    }
    readFully(this.path, descriptor, this.#dataStart + offset + from, target);
  }

  floats(name: string): FloatArray {
    const { dtype } = this.info(name);
    const { decode } = safetensorsDTypes[dtype];
    if (decode === undefined) {
      const expected = `a dtype that is one real number an element, for tensor ${describe(name)}`;
      throw new UnsupportedError({ op: "floats", argument: this.path, expected, received: dtype });
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

  /** Closes the file; names and infos stay readable. Closing twice does nothing. */
  [Symbol.dispose](): void {
    const descriptor = this.#descriptor;
    if (descriptor === undefined) return;
    this.#descriptor = undefined;
    forgotten.unregister(this);
    closeSync(descriptor);
  }
}

/**
 * Opens a regular file for reading. O_NONBLOCK keeps a named pipe from blocking the process before it can be refused.
 *
 * @throws {FileError} for anything else than a regular file.
 */
export function openRegularFile(path: string, op: string): { descriptor: number; size: number } {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const stat = fstatSync(descriptor);
    if (stat.isFile()) return { descriptor, size: stat.size };
    const received = stat.isDirectory() ? "a directory" : "a device, pipe or socket";
    throw new FileError(path, { op, expected: "a regular file", received });
  } catch (cause) {
    if (descriptor !== undefined) closeSync(descriptor);
    if (cause instanceof FileError) throw cause;
    throw new FileError(path, { op, expected: "a readable file", received: reasonOf(cause), cause });
  }
}

/** Fills `target` from the file's byte `position` on. */
export function readFully(path: string, descriptor: number, position: number, target: Uint8Array): void {
  let done = 0;
  while (done < target.byteLength) {
    let count: number;
    try {
      count = readSync(descriptor, target, done, Math.min(target.byteLength - done, mostPerRead), position + done);
    } catch (cause) {
      throw new FileError(path, { op: "read", expected: "readable bytes", received: reasonOf(cause), cause });
    }
    if (count === 0) {
      const expected = `${target.byteLength} bytes at byte ${position}`;
      throw new FileError(path, { op: "read", expected, received: `the end of the file after ${done}` });
    }
    done += count;
  }
}

/** The short reason of a failed system call. */
function reasonOf(cause: unknown): string {
  const code = (cause as { code?: unknown } | null)?.code;
  if (code === "ENOENT") return "no such file";
  if (code === "EACCES" || code === "EPERM") return "no permission to read it";
  if (code === "EISDIR") return "a directory";
  return typeof code === "string" ? code : describe(String(cause));
}

function readHeader(path: string, descriptor: number, size: number): { header: Header; dataStart: number } {
  if (size < 8) throw new FileError(path, { op, expected: "at least 8 bytes", received: `${size}` });
  const lengthBytes = new Uint8Array(8);
  readFully(path, descriptor, 0, lengthBytes);
  const length = new DataView(lengthBytes.buffer).getBigUint64(0, true);
  if (length > BigInt(longestHeader)) {
    throw new FileError(path, { op, expected: `a header of at most ${longestHeader} bytes`, received: `${length}` });
  }
  const dataStart = 8 + Number(length);
  if (dataStart > size) {
    const expected = `a file of at least ${dataStart} bytes, as its header's length says`;
    throw new FileError(path, { op, expected, received: `${size}` });
  }
  const json = new Uint8Array(Number(length));
  readFully(path, descriptor, 8, json);
  try {
    return { header: parseHeader(json, size - dataStart), dataStart };
  } catch (cause) {
    if (!(cause instanceof ScanError)) throw cause;
    throw new FileError(path, { op, expected: cause.expected, received: cause.received });
  }
}

function allocate(bytes: number, path: string, name: string): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    const message = `tensor ${describe(name)} of ${bytes} bytes does not fit in one array; read it in slices`;
    throw new GatedDeltaError("out-of-memory", { op: "read", argument: path, message, cause });
  }
}
