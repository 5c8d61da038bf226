/** Copying numbers into a tensor's elements, with checks. */
import { encodeInto } from "./dtype.ts";
import type { ArrayOfDType, DType } from "./dtype.ts";
import { BoundsError, GatedDeltaError, ShapeError, describe } from "./errors.ts";

const op = "tensor.copyFrom";

/**
 * Writes `source` into all of `target`, each number rounded once.
 *
 * @throws {ShapeError} unless there are as many numbers as elements.
 * @throws {GatedDeltaError} for what is not a number, or for i32 not an integer within it; nothing is written then.
 */
export function fillFrom<D extends DType>(dtype: D, source: ArrayLike<number>, target: ArrayOfDType[D]): void {
  const numbers = asNumbers(source, target.length);
  if (dtype === "i32" && !(numbers instanceof Int32Array)) checkIntegers(numbers);
  // Same elements: a plain copy, which for bf16 takes a Uint16Array as the bits that it holds.
  if (dtype === "bf16" && numbers instanceof Uint16Array) target.set(numbers);
  else encodeInto(dtype, numbers, target);
}

type NumberArray = Exclude<NodeJS.TypedArray, BigInt64Array | BigUint64Array>;

/**
 * A typed array of numbers as it is; anything else array-like as a checked copy. The length is compared before
 * anything is read: a lying one must not keep us busy.
 */
function asNumbers(source: unknown, count: number): NumberArray | number[] {
  if (ArrayBuffer.isView(source)) {
    if (source instanceof DataView || source instanceof BigInt64Array || source instanceof BigUint64Array) {
      throw wrong(describe(source));
    }
    checkCount((source as NumberArray).length, count);
    return source as NumberArray;
  }
  let copy: unknown[];
  try {
    const length: unknown =
      typeof source === "object" && source !== null ? (source as ArrayLike<unknown>).length : undefined;
    if (typeof length !== "number") throw wrong(describe(source));
    checkCount(length, count);
    copy = Array.prototype.slice.call(source, 0, count) as unknown[];
  } catch (cause) {
    if (cause instanceof GatedDeltaError) throw cause;
    throw new GatedDeltaError("invalid-argument", {
      op,
      argument: "source",
      message: "reading it threw an error",
      cause,
    });
  }
  for (let i = 0; i < count; i++) {
    if (typeof copy[i] !== "number") throw wrong(`${describe(copy[i])} at index ${i}`);
  }
  return copy as number[];
}

function checkCount(received: number, expected: number): void {
  if (received === expected) return;
  throw new ShapeError({ op, argument: "source", expected: `${expected} numbers`, received: `${received}` });
}

function wrong(received: string): GatedDeltaError {
  return new GatedDeltaError("invalid-argument", { op, argument: "source", expected: "numbers or a Tensor", received });
}

function checkIntegers(numbers: ArrayLike<number>): void {
  for (let i = 0; i < numbers.length; i++) {
    if ((numbers[i]! | 0) !== numbers[i]) {
      throw new BoundsError({
        op,
        argument: `source[${i}]`,
        expected: "an integer within i32",
        received: describe(numbers[i]),
      });
    }
  }
}
