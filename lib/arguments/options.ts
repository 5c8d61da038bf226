/** Checks of options objects by the schemas of `schemas.ts`, for calls that are not made for each token. */
import { GatedDeltaError, describe } from "../errors.ts";
import { membersOf } from "./members.ts";
import { asArray, reading, throws } from "./reading.ts";

/** The longest array of an option. */
const mostElements = 2 ** 24;

/** A schema of options, which its first call makes. */
export type OptionsSchema<Checked> = () => {
  /** The names of all options. */
  readonly keys: readonly string[];
  safeParse(value: unknown): { readonly success: true; readonly data: Checked } | FailedParse;
};

interface FailedParse {
  readonly success: false;
  readonly error: { readonly issues: readonly Issue[] };
}

interface Issue {
  readonly code?: string | undefined;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly keys?: readonly string[];
}

/**
 * Checks an options object against its schema.
 *
 * @returns a plain copy with the defaults filled in.
 * @throws {GatedDeltaError} of code `invalid-argument` that names the first option at fault.
 */
export function checkOptions<Checked>(schema: OptionsSchema<Checked>, op: string, value: unknown): Checked {
  const { keys, safeParse } = schema();
  const members = membersOf<Record<string, unknown>>(op, value as Record<string, unknown>, keys, { argument: "" });
  // A proxy may claim any length, and zod would make an array of that.
  for (const [name, member] of Object.entries(members)) {
    if (reading(op, name, () => Array.isArray(member))) members[name] = asArray(op, name, "an array", member, mostElements);
  }
  let result;
  try {
    result = safeParse(members);
  } catch (cause) {
    const argument = Object.keys(members).find((name) => throws(() => safeParse({ [name]: members[name] })));
    throw new GatedDeltaError("invalid-argument", { op, argument, message: "reading the options threw an error", cause });
  }
  if (result.success) return result.data;
  // A misspelt name comes first, because it explains why another name is missing.
  const { issues } = result.error;
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0]!;
  const unknown = issue.code === "unrecognized_keys" ? issue.keys?.[0] : undefined;
  const path = [...issue.path, ...(unknown === undefined ? [] : [unknown])];
  throw new GatedDeltaError("invalid-argument", {
    op,
    argument: path.join("."),
    expected: issue.message,
    received: received(members, path),
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
