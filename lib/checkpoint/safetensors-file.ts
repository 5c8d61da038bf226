/** Reads one safetensors file: the header, and the bytes of tensors on demand. The file may be of any size. */
import { FileError, GatedDeltaError, describe } from "../errors.ts";
import { FileTensors, OpenFile } from "./file-tensors.ts";
import type { Location, TensorRange } from "./file-tensors.ts";
import { foreignKind, headBytes } from "./foreign.ts";
import { longestHeader, parseHeader } from "./header.ts";
import type { Header, TensorInfo } from "./header.ts";
import { FormatError } from "./json.ts";
import { readFully } from "./regular-file.ts";
import { PrefixedNames } from "./source.ts";

/**
 * Opens a safetensors file and checks its header.
 *
 * The file is kept open, so that replacing it by a rename does not mix two versions; dispose it (`using`) when done.
 *
 * @param path a regular file.
 * @param op the call named in errors, including those of later reads. @default this function, then the file's methods
 * @throws {FileError} if it is missing, not a regular file, damaged, or its header does not fit its contents.
 */
export function openSafetensors(path: string, op?: string): SafetensorsFile {
  return new SafetensorsFile(path, op);
}

/** An open safetensors file; see {@link openSafetensors}. */
export class SafetensorsFile extends FileTensors {
  readonly path: string;
  readonly #header: Header;
  readonly #dataStart: number;
  readonly #names: PrefixedNames;
  readonly #file: OpenFile;

  constructor(path: string, caller?: string) {
    super(caller);
    const op = caller ?? "openSafetensors";
    if (typeof path !== "string" || !path.isWellFormed()) {
      throw new GatedDeltaError("invalid-argument", { op, argument: "path", expected: "a string of well-formed Unicode", received: describe(path) });
    }
    this.path = path;
    this.#file = new OpenFile(path, op, () => this.#ranges());
    try {
      const { header, dataStart } = readHeader(this.#file, op);
      this.#header = header;
      this.#names = new PrefixedNames(header.tensors);
      this.#dataStart = dataStart;
    } catch (error) {
      this.#file[Symbol.dispose]();
      throw error;
    }
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
      throw new FileError(this.path, { op: this.op ?? "read", expected: `a tensor ${describe(name)}`, received: "a file without it" });
    }
    return info;
  }

  protected locate(name: string): Location {
    return { file: this.#file, position: this.#dataStart + this.info(name).offset };
  }

  *#ranges(): Iterable<TensorRange> {
    for (const [name, { offset, bytes }] of this.#header.tensors) yield [name, { offset: this.#dataStart + offset, bytes }];
  }

  /** Closes the file; names and infos stay readable. Closing twice does nothing. */
  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]();
  }
}

function readHeader(file: OpenFile, op: string): { header: Header; dataStart: number } {
  const { path, size } = file;
  const descriptor = file.descriptor(op);
  const head = new Uint8Array(Math.min(size, headBytes));
  readFully(path, descriptor, 0, head, op);
  const length = size < 8 ? 0n : new DataView(head.buffer).getBigUint64(0, true);
  // No file of another format begins with a length within the limit: bytes 4 to 7 would be zero.
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
