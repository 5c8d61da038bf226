/** The parts of the zod schemas. Their messages become the `expected` of an error. */
import { z } from "zod";

/** Nothing where what a schema gives is the public interface, no option missing; else an argument that can't be had. */
type Drift<Public, Shape extends z.ZodRawShape> = [z.output<z.ZodObject<Shape>>, keyof Public] extends [
  Public,
  keyof Shape,
]
  ? []
  : [drifted: never];

/** A schema and the names of its options. It does not compile when it and the public interface differ. */
export function options<Public>() {
  return <Shape extends z.ZodRawShape>(shape: Shape, ..._: Drift<Public, Shape>) => {
    const expected = "an object of options";
    const schema = z.strictObject(shape, { error: ({ code }) => (code === "invalid_type" ? expected : undefined) });
    return { keys: Object.keys(shape), safeParse: (value: unknown) => schema.safeParse(value) };
  };
}

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
export const signal = z.custom<AbortSignal>((value) => value instanceof AbortSignal, "an AbortSignal").optional();
