/**
 * Reads golden files. Tensors are asked for by name and shape, where a shape names its dimensions (`["B", "T", "Hk", "Dk"]`)
 * and a name must have the same size wherever it occurs. An option in the metadata with an unknown value is an error.
 */

import type { Device } from "../../device/device.ts";
import { dtypes, toFloat32, type ArrayOfDType, type FloatDType } from "../../tensor/dtype.ts";
import { FileError, describe } from "../../errors.ts";
import { floatDType, openSafetensors, type SafetensorsFile } from "../../checkpoint/safetensors.ts";
import type { Report } from "./report.ts";

/** A dimension: a name that is bound when first seen, a size, or a name less one (`K-1`). */
type Dimension = string | number;

/** A tensor of an activation dtype, its bits as they are in the file. */
export interface GoldenTensor {
  readonly dtype: FloatDType;
  readonly shape: readonly number[];
  readonly data: ArrayOfDType[FloatDType];
}

const op = "verify";

/**
 * Legal sizes by dimension. Without them, a file of a few bytes could have 0 heads and 2^50 sequences, a loop without end.
 * Only T, the tokens of a sequence, may be 0.
 */
const legalSizes: Readonly<Record<string, readonly [least: number, most: number]>> = { B: [1, 65536], T: [0, 2 ** 28] };
const usualSizes = [1, 2 ** 28] as const;

/** What `verify` knows about one kind of golden files. */
export interface FileKind {
  /** How the names of its files begin. */
  readonly prefix: string;
  /** The operation that the files are about, for the report. */
  readonly op: string;
  /**
   * Runs the file's case in every way there is and reports each.
   *
   * @throws a typed error where the file is not what its kind says; nothing of it is reported then.
   */
  check(file: GoldenFile, device: Device, report: Report): void;
}

/** An open golden file. */
export class GoldenFile implements Disposable {
  readonly path: string;
  readonly #file: SafetensorsFile;
  readonly #sizes = new Map<string, number>();

  constructor(path: string) {
    this.path = path;
    this.#file = openSafetensors(path, "verify");
  }

  get names(): readonly string[] {
    return this.#file.names;
  }

  has(name: string): boolean {
    return this.#file.has(name);
  }

  /** The size bound to a dimension's name. */
  size(name: string): number {
    const size = this.#sizes.get(name);
    if (size === undefined) throw new Error(`dimension ${name} was not bound by any shape`);
    return size;
  }

  /** A tensor of f32, f16 or bf16, unconverted. */
  tensor(name: string, shape: readonly Dimension[], allowed: readonly FloatDType[] = ["f32", "f16", "bf16"]): GoldenTensor {
    const info = this.#check(name, shape);
    const dtype = floatDType(info.dtype);
    if (!dtype || !allowed.includes(dtype)) {
      throw this.bad(`tensor ${describe(name)} of ${allowed.join(", ")}`, info.dtype);
    }
    const bytes = this.#file.read(name);
    const length = bytes.byteLength / dtypes[dtype].bytes;
    return { dtype, shape: info.shape, data: dtypes[dtype].view(bytes.buffer, bytes.byteOffset, length) };
  }

  /** A tensor of any real dtype, as float64: references. */
  reference(name: string, shape: readonly Dimension[]): Float64Array {
    this.#check(name, shape);
    return this.#file.float64(name);
  }

  /** A tensor of any real dtype that float32 holds exactly, as float32. */
  float32(name: string, shape: readonly Dimension[]): Float32Array {
    const info = this.#check(name, shape);
    if (!floatDType(info.dtype)) throw this.bad(`tensor ${describe(name)} of F32, F16 or BF16`, info.dtype);
    return this.#file.float32(name);
  }

  /** Integers within i32. */
  integers(name: string, shape: readonly Dimension[]): Int32Array {
    const info = this.#check(name, shape);
    if (info.dtype !== "I32" && info.dtype !== "I64") throw this.bad(`tensor ${describe(name)} of I32 or I64`, info.dtype);
    const numbers = this.#file.float64(name);
    const wrong = numbers.find((n) => (n | 0) !== n);
    if (wrong !== undefined) throw this.bad(`tensor ${describe(name)} of integers within i32`, `${wrong}`);
    return Int32Array.from(numbers);
  }

  /** An option by the first pattern that its text matches; `fallback` where the file does not have it. */
  option<T>(key: string, choices: readonly (readonly [pattern: RegExp, value: T])[], fallback: T): T {
    const text = this.#file.metadata.get(key);
    if (text === undefined) return fallback;
    const choice = choices.find(([pattern]) => pattern.test(text));
    if (choice) return choice[1];
    const expected = `metadata ${describe(key)} to match ${choices.map(([pattern]) => String(pattern)).join(" or ")}`;
    throw this.bad(expected, describe(text));
  }

  /** A yes or no, as Python or JSON spell it. */
  flag(key: string, fallback: boolean): boolean {
    return this.option(key, [[/^(?:True|true|1)$/, true], [/^(?:False|false|0)$/, false]], fallback);
  }

  /** A number of the metadata, at least `least`. */
  number(key: string, least: number, fallback: number): number {
    const text = this.#file.metadata.get(key);
    if (text === undefined) return fallback;
    const value = /^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?\s*$/i.test(text) ? Number(text) : NaN;
    if (value >= least && Number.isFinite(value)) return value;
    throw this.bad(`metadata ${describe(key)} to be a number of at least ${least}`, describe(text));
  }

  /** A text of the metadata. */
  text(key: string): string | undefined {
    return this.#file.metadata.get(key);
  }

  /** An error about this file. */
  bad(expected: string, received: string): FileError {
    return new FileError(this.path, { op, expected, received });
  }

  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]();
  }

  #check(name: string, shape: readonly Dimension[]) {
    const info = this.#file.info(name);
    const fits = (dimension: Dimension, i: number) => this.#bind(dimension, info.shape[i] ?? -1);
    if (info.shape.length !== shape.length || !shape.every(fits)) {
      const wanted = shape.map((dimension) => this.#describe(dimension)).join(", ");
      throw this.bad(`tensor ${describe(name)} of shape [${wanted}]`, `[${info.shape.join(", ")}]`);
    }
    return info;
  }

  /** Whether a dimension has this size; binds a name that has none yet. */
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

/** A tensor's elements as numbers. */
export function numbersOf({ dtype, data }: GoldenTensor): Float32Array {
  return toFloat32(dtype, data as never);
}

/** A copy with the last two of three dimensions exchanged: `[outer, rows, columns]` to `[outer, columns, rows]`. */
export function transposed<A extends ArrayOfDType[FloatDType] | Float64Array>(source: A, rows: number, columns: number): A {
  const target = source.slice() as A;
  const block = rows * columns;
  for (let start = 0; start + block <= source.length && block > 0; start += block) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        target[start + column * rows + row] = source[start + row * columns + column] ?? NaN;
      }
    }
  }
  return target;
}
