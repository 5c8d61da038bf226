/**
 * Schemas that zod makes when they are first used: importing zod takes 13 ms, more than the rest of a small program's
 * start.
 */
import type { z } from "zod";
import type * as SchemaParts from "./schema-parts.ts";

/** A schema for each option of a public interface. */
type ShapeOf<Public> = { readonly [Name in keyof Public]-?: z.ZodType<Public[Name]> };

/** Options after their check, with defaults. */
export type Checked<Schema extends () => { safeParse(value: unknown): { data?: unknown } }> = NonNullable<ReturnType<ReturnType<Schema>["safeParse"]>["data"]>;

/** A function that builds a value from zod's parts at its first call and returns the same one afterwards. */
export function lazily<Built>(build: (parts: typeof SchemaParts) => Built): () => Built {
  let built: Built | undefined;
  return () => (built ??= build(require("./schema-parts.ts") as typeof SchemaParts));
}

/**
 * The schema of an options object. It does not compile where an option is missing or has another type:
 *
 *     export const draftOptions = options<DraftOptions>()(({ choice }) => ({
 *       records: choice("deltas", "snapshots").default("deltas"),
 *     }));
 */
export function options<Public>() {
  return <Shape extends ShapeOf<Public>>(shapeOf: (parts: typeof SchemaParts) => Shape) =>
    lazily((parts) => {
      const shape = shapeOf(parts);
      const expected = "an object of options";
      const schema = parts.z.strictObject(shape, { error: ({ code }) => (code === "invalid_type" ? expected : undefined) });
      return { keys: Object.keys(shape), safeParse: (value: unknown) => schema.safeParse(value) };
    });
}
