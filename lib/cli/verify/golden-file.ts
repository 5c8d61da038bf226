/**
 * Reads golden files. A tensor is read by its name and shape. A shape names its dimensions (`["B", "T", "Hk", "Dk"]`), and a
 * name must have the same size in all shapes.
 */

import { FileError, describe } from "../../errors.ts";
import { floatDType, openSafetensors, type SafetensorsFile, type TensorInfo } from "../../checkpoint/safetensors.ts";

/** A dimension: a size, a name that its first use binds to a size, or a name minus one (`K-1`). */
export type Dimension = string | number;

/**
 * Legal sizes by dimension. Without them, a file of a few bytes could have 0 heads and 2^50 sequences, a loop without end.
 * Only T, the tokens of a sequence, may be 0.
 */
const legalSizes: Readonly<Record<string, readonly [least: number, most: number]>> = { B: [1, 65536], T: [0, 2 ** 28] };
const usualSizes = [1, 2 ** 28] as const;

/** An open golden file. */
export class GoldenFile implements Disposable {
  readonly path: string;
  /** The file's tensors and metadata. */
  readonly source: SafetensorsFile;
  readonly #op: string;
  readonly #sizes = new Map<string, number>();

  /** `op`: the command that errors name. */
  constructor(path: string, op = "verify") {
    this.path = path;
    this.#op = op;
    this.source = openSafetensors(path, op);
  }

  /** The size of a dimension's name. */
  size(name: string): number {
    const size = this.#sizes.get(name);
    if (size === undefined) throw new Error(`dimension ${name} was not bound by any shape`);
    return size;
  }

  /** The entry of a tensor, which must have this shape. */
  info(name: string, shape: readonly Dimension[]): TensorInfo {
    const info = this.source.info(name);
    const fits = (dimension: Dimension, i: number) => this.#bind(dimension, info.shape[i] ?? -1);
    if (info.shape.length !== shape.length || !shape.every(fits)) {
      const wanted = shape.map((dimension) => this.#describe(dimension)).join(", ");
      throw this.bad(`tensor ${describe(name)} of shape [${wanted}]`, `[${info.shape.join(", ")}]`);
    }
    return info;
  }

  /** A tensor of any real dtype as float64, for references. */
  reference(name: string, shape: readonly Dimension[]): Float64Array {
    this.info(name, shape);
    return this.source.float64(name);
  }

  /** A tensor of a dtype that float32 holds exactly, as float32. */
  float32(name: string, shape: readonly Dimension[]): Float32Array {
    const info = this.info(name, shape);
    if (!floatDType(info.dtype)) throw this.bad(`tensor ${describe(name)} of F32, F16 or BF16`, info.dtype);
    return this.source.float32(name);
  }

  /** Integers within i32. */
  integers(name: string, shape: readonly Dimension[]): Int32Array {
    const info = this.info(name, shape);
    if (info.dtype !== "I32" && info.dtype !== "I64") throw this.bad(`tensor ${describe(name)} of I32 or I64`, info.dtype);
    const numbers = this.source.float64(name);
    const wrong = numbers.find((n) => (n | 0) !== n);
    if (wrong !== undefined) throw this.bad(`tensor ${describe(name)} of integers within i32`, `${wrong}`);
    return Int32Array.from(numbers);
  }

  /** A number of the metadata, at least `least`. */
  number(key: string, least: number, fallback: number): number {
    const text = this.source.metadata.get(key);
    if (text === undefined) return fallback;
    const value = /^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?\s*$/i.test(text) ? Number(text) : NaN;
    if (value >= least && Number.isFinite(value)) return value;
    throw this.bad(`metadata ${describe(key)} to be a number of at least ${least}`, describe(text));
  }

  /** An error about this file. */
  bad(expected: string, received: string): FileError {
    return new FileError(this.path, { op: this.#op, expected, received });
  }

  [Symbol.dispose](): void {
    this.source[Symbol.dispose]();
  }

  /** Whether a dimension has this size; binds an unbound name to it. */
  #bind(dimension: Dimension, size: number): boolean {
    if (typeof dimension === "number") return dimension === size;
    const [least, most] = legalSizes[dimension] ?? usualSizes;
    if (size < least || size > most) return false;
    const [name, more] = dimension.endsWith("-1") ? [dimension.slice(0, -2), 1] : [dimension, 0];
    const bound = this.#sizes.get(name);
    if (bound === undefined) this.#sizes.set(name, size + more);
    return bound === undefined || bound === size + more;
  }

  #describe(dimension: Dimension): string {
    if (typeof dimension === "number") return String(dimension);
    const bound = this.#sizes.get(dimension);
    if (bound !== undefined) return `${dimension} = ${bound}`;
    return `${dimension} in ${(legalSizes[dimension] ?? usualSizes).join("..")}`;
  }
}
