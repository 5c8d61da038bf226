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

/** The number that a table gives to a name; that of the default when undefined. */
export function asChoice<Table extends Record<string, number>>(
  op: string,
  argument: string,
  value: unknown,
  table: Table,
  byDefault?: keyof Table,
): number {
  const name = value === undefined ? byDefault : value;
  const code: unknown = typeof name === "string" ? table[name] : undefined;
  if (typeof code === "number") return code; // not what a table inherits from Object.prototype
  const names = Object.keys(table).map((known) => JSON.stringify(known));
  throw invalid(op, argument, names.join(" | "), value);
}

/** A number that float32 can hold; the default when undefined. */
export function asFloat32(op: string, argument: string, value: unknown, byDefault: number): number {
  if (value === undefined) return byDefault;
  if (typeof value === "number" && Number.isFinite(Math.fround(value))) return value;
  throw invalid(op, argument, "a finite number within float32's range", value);
}

/** An epsilon: a finite number of at least 0. */
export function asEpsilon(op: string, argument: string, value: unknown, byDefault: number): number {
  const epsilon = asFloat32(op, argument, value, byDefault);
  if (epsilon >= 0) return epsilon;
  throw invalid(op, argument, "a number of at least 0", value);
}

/** An integer within limits. */
export function asInteger(op: string, argument: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isInteger(value)) {
    throw invalid(op, argument, `an integer in ${least}..${most}`, value);
  }
  if (value >= least && value <= most) return value;
  throw new BoundsError({ op, argument, expected: `an integer in ${least}..${most}`, received: describe(value) });
}
