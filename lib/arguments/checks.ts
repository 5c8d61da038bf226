/**
 * Hand-written checks of arguments, for code that runs for every op. They return a value of the stated type or throw an
 * error that names the argument, the accepted values and the one that was passed.
 */
import { BoundsError, GatedDeltaError, describe } from "../errors.ts";

/** The largest dimension, count or index: on the native side these are i32. */
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
