/** Copying numbers into a tensor's elements, with checks. */
import { encodeInto, isFloatDType } from "./dtype.ts";
import type { ArrayOfDType, DType } from "./dtype.ts";
import { BoundsError, DTypeError, DisposedError, GatedDeltaError, ShapeError, describe } from "../errors.ts";
import { lengthOf, reading } from "../arguments/reading.ts";
import type { Tensor } from "./tensor.ts";

const op = "tensor.copyFrom";

type NumberArray = Exclude<NodeJS.TypedArray, BigInt64Array | BigUint64Array>;

/** Checked numbers: the caller's typed array, or a copy of any other source. */
export type Numbers = NumberArray | readonly number[];

/**
 * Reads `source` as `count` numbers for a tensor of `dtype`. The length is checked before any element is read, because a
 * proxy may claim any length. Reading may run code of the caller, which may dispose the target tensor.
 *
 * @throws {ShapeError} unless there are `count` numbers.
 * @throws {GatedDeltaError} for a value that is not a number, or for i32, u32, id32 and u8 not an integer within range.
 */
export function readNumbers(dtype: DType, source: unknown, count: number): Numbers {
  const numbers = reading(op, "source", () => asNumbers(source, count));
  if ((dtype === "i32" || dtype === "id32") && !(numbers instanceof Int32Array)) checkIntegers(dtype, numbers, (value) => value | 0);
  if (dtype === "u32" && !(numbers instanceof Uint32Array)) checkIntegers(dtype, numbers, (value) => value >>> 0);
  if (dtype === "u8" && !(numbers instanceof Uint8Array)) checkIntegers(dtype, numbers, (value) => value & 255);
  return numbers;
}

/** Checks that a tensor's elements can be copied into another's: equal shapes, and one dtype or two of floats. */
export function expectCopyable(source: Tensor, target: Tensor): void {
  if (source.disposed) throw new DisposedError({ op, argument: "source", expected: "a tensor that is not disposed" });
  if (source.shape.length !== target.shape.length || source.shape.some((n, axis) => n !== target.shape[axis])) {
    throw new ShapeError({ op, argument: "source", expected: `shape ${describe(target.shape)}`, received: describe(source.shape) });
  }
  if (source.dtype === target.dtype || (isFloatDType(source.dtype) && isFloatDType(target.dtype))) return;
  throw new DTypeError({ op, argument: "source", expected: target.dtype, received: source.dtype });
}

/** Writes numbers into all of `target`, each rounded once. */
export function writeNumbers<D extends DType>(dtype: D, numbers: Numbers, target: ArrayOfDType[D]): void {
  // A view of growable memory may have another length now; `set` then throws before it writes.
  reading(op, "source", () => {
    // A Uint16Array holds bf16 bits already.
    if (dtype === "bf16" && numbers instanceof Uint16Array) target.set(numbers);
    else encodeInto(dtype, numbers, target);
  });
}

function asNumbers(source: unknown, count: number): Numbers {
  if (ArrayBuffer.isView(source)) {
    if (source instanceof DataView || source instanceof BigInt64Array || source instanceof BigUint64Array) {
      throw wrong(describe(source));
    }
    checkCount(lengthOf(source), count);
    return source as NumberArray;
  }
  const length: unknown =
    typeof source === "object" && source !== null ? (source as ArrayLike<unknown>).length : undefined;
  if (typeof length !== "number") throw wrong(describe(source));
  checkCount(length, count);
  const copy = new Array<number>(count);
  for (let i = 0; i < count; i++) {
    const item = (source as ArrayLike<unknown>)[i];
    if (typeof item !== "number") throw wrong(`${describe(item)} at index ${i}`);
    copy[i] = item;
  }
  return copy;
}

function checkCount(received: number, expected: number): void {
  if (received === expected) return;
  throw new ShapeError({ op, argument: "source", expected: `${expected} numbers`, received: `${received}` });
}

function wrong(received: string): GatedDeltaError {
  return new GatedDeltaError("invalid-argument", { op, argument: "source", expected: "numbers or a Tensor", received });
}

/** @param convert rounds a number to the dtype; integers within range stay equal. */
function checkIntegers(dtype: DType, numbers: ArrayLike<number>, convert: (value: number) => number): void {
  for (let i = 0; i < numbers.length; i++) {
    if (convert(numbers[i]!) !== numbers[i]) {
      throw new BoundsError({
        op,
        argument: `source[${i}]`,
        expected: `an integer within ${dtype}`,
        received: describe(numbers[i]),
      });
    }
  }
}
