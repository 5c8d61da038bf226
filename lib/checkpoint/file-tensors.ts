/** Tensors that lie in open files, one after another: the common part of all such formats. */
import { closeSync } from "node:fs";
import { resolve } from "node:path";
import { BoundsError, DisposedError, GatedDeltaError, ShapeError, UnsupportedError, describe } from "../errors.ts";
import { safetensorsDTypes } from "./dtypes.ts";
import type { FloatArray } from "./dtypes.ts";
import { stampOf, stampText } from "./file-stamp.ts";
import type { FileStamp } from "./file-stamp.ts";
import type { TensorInfo } from "./header.ts";
import { openRegularFile, readFully, readFullyAsync } from "./regular-file.ts";
import type { TensorSource } from "./source.ts";

/** The place of a tensor's bytes. */
export interface TensorPlace {
  /** The same object for all tensors of a file. */
  readonly file: FileOrigin;
  /** The tensor's first byte in the file. */
  readonly position: number;
}

/** A tensor's bytes in its file. */
export type TensorRange = readonly [name: string, range: { readonly offset: number; readonly bytes: number }];

/** A file that tensors are read from. */
export interface FileOrigin {
  /** The file's descriptor, as long as it is open. */
  readonly descriptor: number;
  /** The file's tensors: their names, first bytes in the file, and lengths. */
  readonly ranges: () => Iterable<TensorRange>;
  /** Absolute. */
  readonly path: string;
  /** The file's stamp before the first read. */
  readonly stamp: FileStamp;
  /** Whether an open file still has that stamp. */
  readonly unchanged: () => boolean;
}

/** Closes files that were garbage-collected without being disposed. */
const forgotten = new FinalizationRegistry<number>((descriptor) => closeSync(descriptor));

/** A regular file, kept open, so that replacing it by a rename does not mix two versions. */
export class OpenFile implements Disposable {
  /** As the caller gave it. */
  readonly path: string;
  readonly size: number;
  readonly origin: FileOrigin;
  #descriptor: number | undefined;

  /**
   * @param ranges the file's tensors, called later.
   * @throws {FileError} if it is missing or not a regular file.
   */
  constructor(path: string, op: string, ranges: () => Iterable<TensorRange>) {
    const { descriptor, size } = openRegularFile(path, op);
    const stamp = stampOf(descriptor);
    this.path = path;
    this.size = size;
    this.origin = { path: resolve(path), descriptor, ranges, stamp, unchanged: () => stampText(stampOf(descriptor)) === stampText(stamp) };
    this.#descriptor = descriptor;
    forgotten.register(this, descriptor, this);
  }

  /** @throws {DisposedError} for a file that was closed. */
  descriptor(op: string): number {
    if (this.#descriptor !== undefined) return this.#descriptor;
    throw new DisposedError({ op, argument: this.path, expected: "an open file", received: "a closed one" });
  }

  /** Closes the file. Closing twice does nothing. */
  [Symbol.dispose](): void {
    const descriptor = this.#descriptor;
    if (descriptor === undefined) return;
    this.#descriptor = undefined;
    forgotten.unregister(this);
    closeSync(descriptor);
  }
}

/** A tensor's bytes in an open file. */
export interface Location {
  readonly file: OpenFile;
  readonly position: number;
}

/** Where a tensor of an open source is. */
export let placeInFile: (source: FileTensors, name: string) => TensorPlace;

/** A source whose tensors lie in open files. */
export abstract class FileTensors implements TensorSource {
  abstract readonly path: string;
  abstract readonly names: readonly string[];
  abstract readonly metadata: ReadonlyMap<string, string>;
  /** The call named in errors; undefined if errors name the source's own methods. */
  protected readonly op: string | undefined;

  constructor(op: string | undefined) {
    this.op = op;
  }

  static {
    placeInFile = (source, name) => {
      const { file, position } = source.locate(name);
      return { file: file.origin, position };
    };
  }

  abstract namesWithPrefix(prefix: string): readonly string[];
  abstract has(name: string): boolean;
  abstract info(name: string): TensorInfo;
  abstract [Symbol.dispose](): void;
  /** @throws {FileError} if there is no tensor of this name. */
  protected abstract locate(name: string): Location;

  read(name: string): Uint8Array<ArrayBuffer> {
    const { bytes } = this.info(name);
    const target = allocate(bytes, this.path, name, this.op ?? "read");
    this.readSlice(name, 0, target);
    return target;
  }

  readInto(name: string, target: Uint8Array): void {
    const { bytes } = this.info(name);
    if (target.byteLength !== bytes) {
      const expected = `${bytes} bytes, the size of tensor ${describe(name)}`;
      throw new ShapeError({ op: this.op ?? "readInto", argument: "target", expected, received: `${target.byteLength}` });
    }
    this.readSlice(name, 0, target);
  }

  readSlice(name: string, from: number, target: Uint8Array): void {
    const { path, descriptor, position } = this.#slice(name, from, target);
    readFully(path, descriptor, position, target, this.op);
  }

  async readSliceAsync(name: string, from: number, target: Uint8Array): Promise<void> {
    const { path, descriptor, position } = this.#slice(name, from, target);
    await readFullyAsync(path, descriptor, position, target, this.op);
  }

  floats(name: string): FloatArray {
    const { dtype, weightFormat } = this.info(name);
    const { decode } = safetensorsDTypes[dtype];
    if (decode === undefined || weightFormat !== undefined) {
      const expected = `a dtype that is one real number an element, for tensor ${describe(name)}`;
      throw new UnsupportedError({ op: this.op ?? "floats", argument: this.path, expected, received: weightFormat ?? dtype });
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

  /** The place of part of a tensor. */
  #slice(name: string, from: number, target: Uint8Array): { path: string; descriptor: number; position: number } {
    const { bytes } = this.info(name);
    const { file, position } = this.locate(name);
    const descriptor = file.descriptor(this.op ?? "read");
    if (!Number.isSafeInteger(from) || from < 0 || from + target.byteLength > bytes) {
      const expected = `bytes within tensor ${describe(name)} of ${bytes}`;
      throw new BoundsError({ op: this.op ?? "readSlice", argument: "from", expected, received: `${from} to ${from + target.byteLength}` });
    }
    return { path: file.path, descriptor, position: position + from };
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
