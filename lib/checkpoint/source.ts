/** Sources of tensors: single files and sharded checkpoints. */
import type { FloatArray } from "./dtypes.ts";
import type { TensorInfo } from "./header.ts";

/**
 * Named tensors that can be read. Headers and indices are read once, when they are opened, so load all layers of a model from
 * one source. Dispose the source to close its files.
 */
export interface TensorSource extends Disposable {
  /** The file, index or folder that was opened. */
  readonly path: string;
  /** The names of all tensors. */
  readonly names: readonly string[];
  /** A tensor's name in the file, for messages. Absent where all names are the file's. */
  nameInFile?(name: string): string;
  /** The names that begin with `prefix`, in the order of their UTF-16 code units, found by binary search. */
  namesWithPrefix(prefix: string): readonly string[];
  /** The file's `__metadata__`; a checkpoint has that of all shards opened so far, each key from the first shard with it. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Whether there is a tensor of this name. */
  has(name: string): boolean;
  /**
   * Type, shape and size of a tensor.
   *
   * @throws {FileError} if there is none of this name.
   */
  info(name: string): TensorInfo;
  /**
   * A copy of a tensor's bytes.
   *
   * @throws {FileError} if there is none of this name, or the file ends too early.
   * @throws {GatedDeltaError} `out-of-memory` beyond what one array can hold (4 GiB); see `readSlice`.
   */
  read(name: string): Uint8Array<ArrayBuffer>;
  /**
   * Reads a tensor's bytes into the caller's memory, without an intermediate copy.
   *
   * @param target exactly as long as the tensor.
   * @throws {ShapeError} if it is not.
   */
  readInto(name: string, target: Uint8Array): void;
  /**
   * Reads part of a tensor: `target.byteLength` bytes from its byte `from` on. Use it for tensors that are too large for one
   * array.
   *
   * @throws {BoundsError} if they are not all within the tensor.
   */
  readSlice(name: string, from: number, target: Uint8Array): void;
  /**
   * {@link readSlice} in the background. The source stays open and `target` where it is until the promise settles.
   *
   * @throws {BoundsError} if they are not all within the tensor.
   */
  readSliceAsync(name: string, from: number, target: Uint8Array): Promise<void>;
  /**
   * A tensor as numbers: Float64Array for F64 and for 32-bit and 64-bit integers (64-bit ones are rounded beyond 2^53),
   * else Float32Array. Either way every F64, F32, F16, BF16 and F8 value is exact.
   *
   * @throws {UnsupportedError} for C64 and floats of 4 and 6 bits; `read` gives their bytes.
   */
  floats(name: string): FloatArray;
  /** {@link floats} as float32, rounded if the tensor has more precision. */
  float32(name: string): Float32Array<ArrayBuffer>;
  /** {@link floats} as float64. */
  float64(name: string): Float64Array<ArrayBuffer>;
}

/** The name of a tensor in its file, for messages. */
export function nameIn(source: TensorSource, name: string): string {
  return source.nameInFile?.(name) ?? name;
}

/** The source's path and a tensor's {@link nameIn}, as the argument of an error. */
export function placeIn(source: TensorSource, name: string): string {
  return `${source.path}: ${nameIn(source, name)}`;
}

/** The names of a source, listed and sorted on first use. */
export class PrefixedNames {
  readonly #tensors: ReadonlyMap<string, unknown>;
  #all: readonly string[] | undefined;
  #sorted: readonly string[] | undefined;

  constructor(tensors: ReadonlyMap<string, unknown>) {
    this.#tensors = tensors;
  }

  /** All names, in the order of the map. */
  get all(): readonly string[] {
    return (this.#all ??= [...this.#tensors.keys()]);
  }

  /** See {@link TensorSource.namesWithPrefix}. */
  withPrefix(prefix: string): readonly string[] {
    const names = (this.#sorted ??= this.all.toSorted());
    let from = 0;
    for (let to = names.length; from < to; ) {
      const middle = (from + to) >>> 1;
      if (names[middle]! < prefix) from = middle + 1;
      else to = middle;
    }
    let end = from;
    while (end < names.length && names[end]!.startsWith(prefix)) end++;
    return names.slice(from, end);
  }
}
