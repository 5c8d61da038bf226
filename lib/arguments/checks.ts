/**
 * Hand-written checks of arguments, for the paths that run once an op. Each names the argument, what was expected and
 * what came. Whatever a caller passes, they end in a value of the stated type or in a typed error.
 */
import { BoundsError, GatedDeltaError, describe } from "../errors.ts";

/** The largest dimension, count or index: all of them cross the boundary as i32 or are compared with one. */
export const largestIndex = 2 ** 31 - 1;

/** An argument of the wrong kind. */
export function invalid(op: string, argument: string, expected: string, value: unknown): GatedDeltaError {
  return new GatedDeltaError("invalid-argument", { op, argument, expected, received: describe(value) });
}

/** The object of named arguments. */
export function asArguments<A extends object>(op: string, value: A): A {
  if (typeof value !== "object" || value === null) throw invalid(op, "", "an object of named arguments", value);
  return value;
}

/** An integer within limits. */
export function asInteger(op: string, argument: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isInteger(value)) {
    throw invalid(op, argument, `an integer in ${least}..${most}`, value);
  }
  if (value >= least && value <= most) return value;
  throw new BoundsError({ op, argument, expected: `an integer in ${least}..${most}`, received: describe(value) });
}
