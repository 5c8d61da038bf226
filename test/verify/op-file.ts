/**
 * Golden files of operations: {@link GoldenFile} with tensors in their own dtype, and options in the metadata, where an
 * unknown value is an error.
 */

import type { Device } from "../../lib/device/device.ts";
import { describe } from "../../lib/errors.ts";
import { floatDType } from "../../lib/checkpoint/safetensors.ts";
import { bounds, relRms } from "../../lib/cli/verify/compare.ts";
import { GoldenFile, type Dimension } from "../../lib/cli/verify/golden-file.ts";
import type { Report } from "../../lib/cli/verify/report.ts";
import { dtypes, encode, toFloat32, type ArrayOfDType, type FloatDType } from "../../lib/tensor/dtype.ts";

/** One kind of golden files. */
export interface FileKind {
  /** The prefix of its files' names. */
  readonly prefix: string;
  /** The operation that the files test, for the report. */
  readonly op: string;
  /**
   * Runs the file's case in every way and reports each run.
   *
   * @throws a typed error, before anything is reported, if the file does not fit its kind.
   */
  check(file: OpFile, device: Device, report: Report): void;
}

/** A tensor of an activation dtype, its bits as they are in the file. */
export interface OpTensor {
  readonly dtype: FloatDType;
  readonly shape: readonly number[];
  readonly data: ArrayOfDType[FloatDType];
}

/** An open golden file of an operation. */
export class OpFile extends GoldenFile {
  /** A tensor of f32, f16 or bf16, unconverted. */
  tensor(name: string, shape: readonly Dimension[], allowed: readonly FloatDType[] = ["f32", "f16", "bf16"]): OpTensor {
    const info = this.info(name, shape);
    const dtype = floatDType(info.dtype);
    if (!dtype || !allowed.includes(dtype)) {
      throw this.bad(`tensor ${describe(name)} of ${allowed.join(", ")}`, info.dtype);
    }
    const bytes = this.source.read(name);
    const length = bytes.byteLength / dtypes[dtype].bytes;
    return { dtype, shape: info.shape, data: dtypes[dtype].view(bytes.buffer, bytes.byteOffset, length) };
  }

  /** An option's value, by the first pattern that its text matches; `fallback` if the file does not have the option. */
  option<T>(key: string, choices: readonly (readonly [pattern: RegExp, value: T])[], fallback: T): T {
    const text = this.source.metadata.get(key);
    if (text === undefined) return fallback;
    const choice = choices.find(([pattern]) => pattern.test(text));
    if (choice) return choice[1];
    const expected = `metadata ${describe(key)} to match ${choices.map(([pattern]) => String(pattern)).join(" or ")}`;
    throw this.bad(expected, describe(text));
  }

  /** A boolean as spelled in Python or JSON. */
  flag(key: string, fallback: boolean): boolean {
    return this.option(key, [[/^(?:True|true|1)$/, true], [/^(?:False|false|0)$/, false]], fallback);
  }
}

/** A tensor's elements as numbers. */
export function numbersOf({ dtype, data }: OpTensor): Float32Array {
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

/**
 * The bound of an output that is stored as `dtype`. The bounds of 16-bit dtypes hold for many numbers; rounding a few can
 * lose more. If rounding the reference itself loses more, the bound is that loss plus the allowance for float32 arithmetic.
 */
export function outputBound(dtype: FloatDType, reference: ArrayLike<number>): number {
  if (dtype === "f32") return bounds.f32;
  const loss = relRms(toFloat32(dtype, encode(dtype, reference)), reference);
  return Number.isFinite(loss) ? Math.max(bounds[dtype], loss + bounds.f32) : bounds[dtype];
}
