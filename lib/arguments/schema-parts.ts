/** The parts of schemas. Their messages become the `expected` of an error. Loaded by `schemas.ts`, with zod. */
import { z } from "zod";
import { isSignal } from "./signals.ts";

export { z };

/** An integer within limits. */
export function integer(least: number, most: number): z.ZodInt {
  const expected = `an integer in ${least}..${most}`;
  return z.int(expected).min(least, expected).max(most, expected);
}

/** One of a few names. */
export function choice<const Names extends readonly [string, ...string[]]>(...names: Names) {
  return z.enum(names, names.map((name) => JSON.stringify(name)).join(" | "));
}

/** One of the names of a table. */
export function nameOf<Table extends object>(table: Table) {
  return choice(...(Object.keys(table) as [keyof Table & string, ...(keyof Table & string)[]]));
}

/** A signal that ends a wait. */
export const signal = z.custom<AbortSignal>(isSignal, "an AbortSignal").optional();

/** A boolean. */
export const flag = z.boolean("a boolean");

/** A function of the type parameter's arguments. */
export function callback<Call extends (...args: never[]) => unknown>() {
  return z.custom<Call>((value) => typeof value === "function", "a function");
}
