/**
 * Reads objects that a caller passed. A getter or a proxy may throw, return another value at every read, or claim any
 * length: elements are read once, up to a limit, and failures become typed errors.
 */
import { GatedDeltaError, ShapeError, describe } from "../errors.ts";

/**
 * Runs code that reads a caller's object. A {@link GatedDeltaError} passes as it is; any other error, of a getter or a
 * proxy, becomes the cause of a typed one.
 */
export function reading<T>(op: string, argument: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof GatedDeltaError) throw error;
    throw new GatedDeltaError("invalid-argument", { op, argument, expected: "a value that can be read", received: `one that throws ${thrown(error)}`, cause: error });
  }
}

/** Anything thrown, in at most a line: an error's `message` may throw too. */
function thrown(error: unknown): string {
  try {
    return describe(error instanceof Error ? error.message : error);
  } catch {
    return "an error";
  }
}

/** Whether code that reads a caller's object throws. */
export function throws(read: () => unknown): boolean {
  try {
    read();
    return false;
  } catch {
    return true;
  }
}

/** The getter of a prototype, which reads the object itself even if it has a member of that name. It may throw for other objects. */
export function getter<Value>(prototype: object, name: string | symbol): (of: unknown) => Value {
  const { get } = Object.getOwnPropertyDescriptor(prototype, name)!;
  return (of) => get!.call(of) as Value;
}

/** The prototype of the prototypes of all typed arrays. */
export const typedArray = Object.getPrototypeOf(Int32Array.prototype) as object;

/** The length of a typed array, which a subclass may have overridden. Throws for anything else. */
export const lengthOf = getter<number>(typedArray, "length");

/** Whether a value is an Int32Array or a Uint32Array, and not a proxy of one or an object that only has its prototype. */
export function areTypedIds(value: unknown): value is Int32Array | Uint32Array {
  return ArrayBuffer.isView(value) && (value instanceof Int32Array || value instanceof Uint32Array);
}

/**
 * Copies a JavaScript array. Its elements are read by index, each once; its iterator is not used.
 *
 * @param most a longer array is refused before any element is read.
 * @param tooLong the error for a longer array; by default a {@link ShapeError}.
 * @throws {GatedDeltaError} for a value that is not an array, or throws while it is read; {@link ShapeError} for too many elements.
 */
export function asArray(
  op: string,
  argument: string,
  expected: string,
  value: unknown,
  most: number,
  tooLong?: (length: number) => GatedDeltaError,
): unknown[] {
  return reading(op, argument, () => {
    if (!Array.isArray(value)) {
      throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: describe(value) });
    }
    const length: unknown = value.length;
    if (typeof length !== "number" || !Number.isSafeInteger(length) || length < 0) {
      const received = `one of length ${describe(length)}`;
      throw new GatedDeltaError("invalid-argument", { op, argument, expected, received });
    }
    if (length > most) {
      throw tooLong?.(length) ?? new ShapeError({ op, argument, expected: `at most ${most} elements`, received: `${length}` });
    }
    const elements = new Array<unknown>(length);
    for (let i = 0; i < length; i++) elements[i] = (value as readonly unknown[])[i];
    return elements;
  });
}
