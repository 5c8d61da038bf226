/** Refuses schemas that are too large to read, including cyclic ones and ones whose shared parts multiply, before they are copied. */
import { GatedDeltaError, UnsupportedError } from "../../errors.ts";

/** The most JSON values in a schema, and their deepest nesting. */
const mostValues = 200_000;
const deepestValue = 2000;

/**
 * @param value JSON, or a value that becomes JSON.
 * @throws {UnsupportedError} that names the argument.
 */
export function expectSmall(op: string, argument: string, value: unknown): void {
  let level: object[] = isParent(value) ? [value] : [];
  // A level at a time: a cycle continues until it is too deep, and shared parts count each time.
  for (let depth = 1, count = 0; level.length > 0; depth++) {
    if (depth > deepestValue) throw tooLarge(op, argument, `at most ${deepestValue} values of JSON within each other`);
    const next: object[] = [];
    for (const parent of level) {
      const members: readonly unknown[] = Array.isArray(parent) ? parent : Object.values(parent);
      count += members.length;
      if (count > mostValues) throw tooLarge(op, argument, `at most ${mostValues} values of JSON`);
      for (const member of members) if (isParent(member)) next.push(member);
    }
    level = next;
  }
}

/** Whether a value contains further JSON. A value with its own method for JSON decides that itself. */
const isParent = (value: unknown): value is object => typeof value === "object" && value !== null && typeof (value as { toJSON?: unknown }).toJSON !== "function";

function tooLarge(op: string, argument: string, expected: string): GatedDeltaError {
  return new UnsupportedError({ op, argument, expected, received: "more" });
}
