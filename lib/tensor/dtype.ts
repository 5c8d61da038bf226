/**
 * Element types and their typed arrays.
 *
 * bf16 has no typed array in JavaScript, so its bits are kept in a Uint16Array. Therefore every function here takes the
 * dtype as an argument instead of inferring it from the array.
 */
import { asInteger, invalid } from "../arguments/checks.ts";
import { asArray, lengthOf } from "../arguments/reading.ts";
import { DTypeError, describe } from "../errors.ts";

/**
 * Element type of a tensor. `i32` is only for the host's index data (cuSeqlens, slots, ids), which ops read when they are
 * encoded; `id32` is for index data that one op writes and another reads, both when they run; `u32` and `u8` are for the
 * words and blocks of packed weights.
 */
export type DType = "f32" | "f16" | "bf16" | "i32" | "u32" | "id32" | "u8";

/** The dtypes that hold numbers to compute with. */
export type FloatDType = Exclude<DType, "i32" | "u32" | "id32" | "u8">;

/** The typed array that views each dtype. */
export interface ArrayOfDType {
  /** The numbers. */
  readonly f32: Float32Array;
  /** The numbers. */
  readonly f16: Float16Array;
  /** Raw bits; see {@link decodeBf16} and {@link encodeBf16}. */
  readonly bf16: Uint16Array;
  /** Index data. */
  readonly i32: Int32Array;
  /** Words of packed weights. */
  readonly u32: Uint32Array;
  /** Index data of the device. */
  readonly id32: Int32Array;
  /** Blocks of packed weights. */
  readonly u8: Uint8Array;
}

/** The memory layout of one dtype. */
export interface DTypeInfo<D extends DType = DType> {
  /** Bytes of one element. */
  readonly bytes: 1 | 2 | 4;
  /** Views `length` elements of a buffer from `byteOffset`, without a copy. */
  view(buffer: ArrayBufferLike, byteOffset: number, length: number): ArrayOfDType[D];
  /** A zeroed array of its own memory. */
  create(length: number): ArrayOfDType[D];
}

/** Every dtype's layout, keyed by its name. */
export const dtypes: { readonly [D in DType]: DTypeInfo<D> } = {
  f32: { bytes: 4, view: (b, o, n) => new Float32Array(b, o, n), create: (n) => new Float32Array(n) },
  f16: { bytes: 2, view: (b, o, n) => new Float16Array(b, o, n), create: (n) => new Float16Array(n) },
  bf16: { bytes: 2, view: (b, o, n) => new Uint16Array(b, o, n), create: (n) => new Uint16Array(n) },
  i32: { bytes: 4, view: (b, o, n) => new Int32Array(b, o, n), create: (n) => new Int32Array(n) },
  u32: { bytes: 4, view: (b, o, n) => new Uint32Array(b, o, n), create: (n) => new Uint32Array(n) },
  id32: { bytes: 4, view: (b, o, n) => new Int32Array(b, o, n), create: (n) => new Int32Array(n) },
  u8: { bytes: 1, view: (b, o, n) => new Uint8Array(b, o, n), create: (n) => new Uint8Array(n) },
};

/** Whether a dtype holds numbers to compute with. */
export function isFloatDType(dtype: DType): dtype is FloatDType {
  return dtype !== "i32" && dtype !== "u32" && dtype !== "id32" && dtype !== "u8";
}

/**
 * Takes a value as a dtype.
 *
 * @throws {DTypeError} when it names none.
 */
export function asDType(value: unknown, op: string, argument: string): DType {
  if (typeof value === "string" && Object.hasOwn(dtypes, value)) return value as DType;
  throw new DTypeError({ op, argument, expected: `one of ${Object.keys(dtypes).join(", ")}`, received: describe(value) });
}

const f32Box = new Float32Array(1);
const u32Box = new Uint32Array(f32Box.buffer);

/**
 * The bf16 nearest to `value`, as bits. Ties go to even; values that are too large become infinity; NaN stays NaN (quiet,
 * with its sign and upper payload).
 *
 * A JavaScript number has more bits than float32, and rounding twice is wrong if the first rounding gives a tie of the
 * second. Then the original number decides.
 */
function encodeBf16Value(value: number): number {
  f32Box[0] = value;
  const bits = u32Box[0]!;
  if (value !== value) return (bits >>> 16) | 0x40;
  const single = f32Box[0]!;
  const high = bits >>> 16;
  const low = bits & 0xffff;
  if (low !== 0x8000) return low > 0x8000 ? high + 1 : high;
  // A tie as float32, but not if the original number is larger or smaller.
  const beyond = Math.abs(value) - Math.abs(single);
  if (beyond !== 0) return beyond > 0 ? high + 1 : high;
  return high + (high & 1);
}

/** The longest array of JavaScript numbers: a proxy may claim any length. */
const longestArray = 2 ** 26;

/** A typed array as it is, with its own length; a copy of an array. */
function listOf(op: string, argument: string, value: unknown): { readonly list: ArrayLike<unknown>; readonly length: number } {
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return { list: value as Uint8Array, length: lengthOf(value) };
  const list = asArray(op, argument, "an array of numbers", value, longestArray);
  return { list, length: list.length };
}

/**
 * Numbers as bf16 bits, each rounded once, to nearest, ties to even.
 *
 * @throws {GatedDeltaError} that names the element, for one that is not a number.
 */
export function encodeBf16(values: ArrayLike<number>): Uint16Array<ArrayBuffer> {
  const op = "encodeBf16";
  const { list, length } = listOf(op, "values", values);
  const out = new Uint16Array(length);
  for (let i = 0; i < length; i++) {
    const value = list[i];
    if (typeof value !== "number") throw invalid(op, `values[${i}]`, "a number", value);
    out[i] = encodeBf16Value(value);
  }
  return out;
}

/**
 * bf16 bits as float32; exact.
 *
 * @throws {GatedDeltaError} that names the element, for one that is not a 16-bit integer.
 */
export function decodeBf16(bits: ArrayLike<number>): Float32Array<ArrayBuffer> {
  const op = "decodeBf16";
  const { list, length } = listOf(op, "bits", bits);
  const out = new Float32Array(length);
  const words = new Uint32Array(out.buffer);
  for (let i = 0; i < length; i++) words[i] = (bits instanceof Uint16Array ? bits[i]! : asInteger(op, `bits[${i}]`, list[i], 0, 0xffff)) << 16;
  return out;
}

/**
 * Writes numbers into an array of the given dtype, each rounded once: to nearest, ties to even; integers as
 * JavaScript converts (towards zero, modulo 2^32 or 2^8).
 *
 * @param target at least as long as `values`; the rest of it is unchanged.
 */
export function encodeInto<D extends DType>(dtype: D, values: ArrayLike<number>, target: ArrayOfDType[D]): void {
  if (dtype === "bf16") {
    for (let i = 0; i < values.length; i++) target[i] = encodeBf16Value(values[i]!);
  } else {
    target.set(values);
  }
}

/** Numbers as a new array of the given dtype; see {@link encodeInto}. */
export function encode<D extends DType>(dtype: D, values: ArrayLike<number>): ArrayOfDType[D] {
  const out = dtypes[dtype].create(values.length);
  encodeInto(dtype, values, out);
  return out;
}

/** A copy as float32: exact for f32, f16 and bf16; integers round beyond 2^24. */
export function toFloat32<D extends DType>(dtype: D, values: ArrayOfDType[D]): Float32Array<ArrayBuffer> {
  return dtype === "bf16" ? decodeBf16(values) : new Float32Array(values);
}
