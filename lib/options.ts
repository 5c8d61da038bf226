/**
 * Validation of options objects by zod. The schemas are loaded when the first one is needed: zod takes about 13 ms to
 * import, more than everything else that a small program starts with.
 */
import { GatedDeltaError, describe } from "./errors.ts";

type Schemas = typeof import("./schemas.ts");
type Checked<N extends keyof Schemas> = Extract<ReturnType<Schemas[N]["safeParse"]>, { success: true }>["data"];

let schemas: Schemas | undefined;

/**
 * Checks an options object against its schema.
 *
 * @returns a plain copy with the defaults filled in.
 * @throws {GatedDeltaError} of code `invalid-argument` that names the first option at fault.
 */
export function checkOptions<N extends keyof Schemas>(name: N, op: string, value: unknown): Checked<N> {
  schemas ??= require("./schemas.ts") as Schemas;
  let result;
  try {
    result = schemas[name].safeParse(value);
  } catch (cause) {
    throw new GatedDeltaError("invalid-argument", { op, message: "reading the options threw an error", cause });
  }
  if (result.success) return result.data as Checked<N>;
  const issue = result.error.issues[0]!;
  const unknown = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const path = [...issue.path, ...(unknown === undefined ? [] : [unknown])];
  throw new GatedDeltaError("invalid-argument", {
    op,
    argument: path.join("."),
    expected: unknown === undefined ? issue.message : `one of the options ${schemas[name].keys.join(", ")}`,
    received: received(value, path),
    cause: result.error,
  });
}

function received(value: unknown, path: readonly PropertyKey[]): string {
  try {
    let current = value;
    for (const key of path) current = (current as Record<PropertyKey, unknown>)[key];
    return describe(current);
  } catch {
    return "a value that can't be read";
  }
}
