/** Index data that callers pass: cuSeqlens, slots and ids. */
import { BoundsError, DTypeError, DisposedError, GatedDeltaError, ShapeError, describe } from "../errors.ts";
import { asArray, getter, lengthOf, typedArray } from "../arguments/reading.ts";
import { isTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { IndexArgument } from "./recorder.ts";

/**
 * Integers within i32: slots, or the row offsets of a ragged batch. They are read when the op is encoded, and again
 * each time that a plan runs; later changes do not affect encoded ops. An Int32Array is fastest.
 */
export type Indices = Int32Array | readonly number[] | Tensor<"i32">;

/** Index data that was read. */
export interface IndexData extends IndexArgument {
  readonly elements: Int32Array | Tensor<"i32">;
}

const kindOf = getter<string | undefined>(typedArray, Symbol.toStringTag);

/** Whether a value is an Int32Array, of this realm or another; lookalikes are not. */
function isInt32Array(value: unknown): value is Int32Array {
  return kindOf(value) === "Int32Array";
}

/**
 * Reads index data. Only here can a caller's array run code (proxies, getters).
 *
 * @returns undefined if `source` is.
 */
export function readIndices(op: string, argument: string, source: Indices | undefined): IndexData | undefined {
  if (source === undefined) return undefined;
  const elements = readElements(op, argument, source);
  const count = isTensor(elements) ? elements.size : lengthOf(elements);
  return { op, argument, source, count, elements };
}

/** The integers of a JavaScript array, or the tensor that holds them. */
export function readElements(op: string, argument: string, source: Indices): Int32Array | Tensor<"i32"> {
  if (isInt32Array(source)) {
    // An empty array is legal where there are no sequences; the array of detached memory also looks empty.
    if (lengthOf(source) === 0 && (source.buffer as Partial<ArrayBuffer>).detached === true) {
      throw new DisposedError({ op, argument, expected: "an array over memory that is not detached", received: "a detached one" });
    }
    return source;
  }
  if (isTensor(source)) {
    if (source.disposed) throw new DisposedError({ op, argument, expected: "a tensor that is not disposed" });
    if (source.dtype !== "i32") throw new DTypeError({ op, argument, expected: "i32", received: source.dtype });
    if (source.shape.length !== 1 || !source.contiguous) {
      throw new ShapeError({
        op,
        argument,
        expected: "a contiguous tensor of one dimension",
        received: describe(source.shape),
      });
    }
    return source;
  }
  const values = asArray(op, argument, indicesText, source, longestArray);
  const integers = new Int32Array(values.length);
  for (let i = 0; i < integers.length; i++) integers[i] = asI32(op, argument, i, values[i]);
  return integers;
}

/** The longest JavaScript array of index data, so that a mistaken length does not take for ever. */
const longestArray = 2 ** 24;

/** The accepted forms of index data. */
export const indicesText = "an Int32Array, an array of integers or an i32 tensor";

function asI32(op: string, argument: string, index: number, value: unknown): number {
  if (typeof value === "number" && (value | 0) === value) return value;
  const details = {
    op,
    argument: `${argument}[${index}]`,
    expected: "an integer within i32",
    received: describe(value),
  };
  if (typeof value === "number" && Number.isInteger(value)) throw new BoundsError(details);
  throw new GatedDeltaError("invalid-argument", details);
}
