/** Checks shapes, layouts and memory that callers pass: every element is read once, checked and copied. */
import { dtypes } from "./dtype.ts";
import type { DType } from "./dtype.ts";
import { BoundsError, GatedDeltaError, ShapeError, describe } from "../errors.ts";
import { membersOf } from "../arguments/members.ts";
import { asArray } from "../arguments/reading.ts";
import { constants } from "../native/layout.ts";
import { contiguousStrides, sizeOf } from "./strides.ts";

/** A strided view: offset and strides in elements. */
export interface TensorView {
  /** Index of the view's first element, counted from the tensor's first. 0 by default. */
  readonly offset?: number | undefined;
  /** The view's dimensions, outermost first. */
  readonly shape: readonly number[];
  /** Contiguous by default. */
  readonly strides?: readonly number[] | undefined;
}

/** Bytes of the largest tensor: an ArrayBuffer's limit of 4 GiB, less one page, since lengths are rounded up to pages. */
export const largestBytes = constants.GD_LARGEST_BUFFER;

const largestDimension = 2 ** 31 - 1;
const largestRank = 8;

/**
 * Copies a shape.
 *
 * @throws {ShapeError} unless it has 1 to 8 dimensions, each an integer in 0..2^31-1.
 */
export function asShape(op: string, argument: string, value: unknown): number[] {
  const shape = asNumbers(op, argument, value);
  if (shape.every((length) => Number.isInteger(length) && length >= 0 && length <= largestDimension)) return shape;
  throw new ShapeError({ op, argument, expected: `integers in 0..${largestDimension}`, received: describe(shape) });
}

/**
 * The length in bytes of a tensor to be made.
 *
 * @throws {ShapeError} beyond 4 GiB - 16 KiB, before anything is allocated.
 */
export function bytesOf(op: string, dtype: DType, shape: readonly number[]): number {
  const bytes = sizeOf(shape) * dtypes[dtype].bytes;
  if (bytes <= largestBytes) return bytes;
  throw new ShapeError({
    op,
    argument: "shape",
    expected: `at most ${largestBytes} bytes (4 GiB - 16 KiB)`,
    received: `${bytes} bytes: ${describe(shape)} of ${dtype}`,
  });
}

/** Checks that memory of the caller is long enough for a tensor, and not longer than the largest one. */
export function elementsWithin(
  op: string,
  argument: string,
  bytes: unknown,
  dtype: DType,
  shape: readonly number[],
): void {
  const needed = bytesOf(op, dtype, shape);
  if (typeof bytes !== "number" || !Number.isSafeInteger(bytes)) {
    throw new GatedDeltaError("invalid-argument", {
      op,
      argument,
      expected: "a number of bytes",
      received: describe(bytes),
    });
  }
  if (bytes >= Math.max(needed, 1) && bytes <= largestBytes) return;
  throw new ShapeError({
    op,
    argument,
    expected: `${Math.max(needed, 1)}..${largestBytes} bytes for ${describe(shape)} of ${dtype}`,
    received: `${bytes} bytes`,
  });
}

/** Copies a view's layout and fills in its defaults. */
export function asView(
  op: string,
  value: TensorView,
): Required<{ [K in keyof TensorView]: NonNullable<TensorView[K]> }> {
  const words = { argument: "", expected: "{ offset?, shape, strides? }", kind: "" };
  const { offset = 0, shape: givenShape, strides: givenStrides } = membersOf(op, value, ["offset", "shape", "strides"], words);
  if (!Number.isSafeInteger(offset) || offset < 0) {
    throw new BoundsError({ op, argument: "offset", expected: "an integer of at least 0", received: describe(offset) });
  }
  const shape = asShape(op, "shape", givenShape);
  const strides = contiguousStrides(shape);
  if (givenStrides === undefined) return { offset, shape, strides };
  const given = asNumbers(op, "strides", givenStrides);
  if (given.length !== shape.length) {
    throw new ShapeError({ op, argument: "strides", expected: `${shape.length} numbers`, received: describe(given) });
  }
  for (const [axis, length] of shape.entries()) {
    const stride = given[axis]!;
    // Ops do not take repeated elements (stride 0), but the stride of a dimension of length 1 is never used.
    const legal = Number.isSafeInteger(stride) && (stride >= 1 || (stride === 0 && length <= 1));
    if (!legal) {
      throw new ShapeError({
        op,
        argument: `strides[${axis}]`,
        expected: "an integer of at least 1",
        received: describe(stride),
      });
    }
    if (stride > 0) strides[axis] = stride;
  }
  return { offset, shape, strides };
}

/** A short array of numbers, each element read once. */
function asNumbers(op: string, argument: string, value: unknown): number[] {
  const expected = `an array of 1 to ${largestRank} numbers`;
  const numbers = asArray(op, argument, expected, value, largestRank);
  if (numbers.length >= 1 && numbers.every((item) => typeof item === "number")) return numbers;
  throw new ShapeError({ op, argument, expected, received: describe(numbers) });
}

/** Checks a range of indices inside 0..length. */
export function asRange(op: string, start: number, end: number, length: number): [number, number] {
  if (Number.isInteger(start) && Number.isInteger(end) && start >= 0 && start <= end && end <= length)
    return [start, end];
  throw new BoundsError({
    op,
    argument: "start, end",
    expected: `integers with 0 ≤ start ≤ end ≤ ${length}`,
    received: `${describe(start)}, ${describe(end)}`,
  });
}

/** Checks the number of a dimension. */
export function expectAxis(op: string, axis: number, rank: number): void {
  if (Number.isInteger(axis) && axis >= 0 && axis < rank) return;
  throw new BoundsError({ op, argument: "axis", expected: `0..${rank - 1}`, received: describe(axis) });
}

/** Checks an address of memory. */
export function asAddress(op: string, argument: string, value: unknown): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
  const expected = "an address: a positive integer";
  throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: describe(value) });
}
