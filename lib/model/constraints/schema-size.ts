/** Refuses schemas that are too large to read, before they are copied: cyclic ones and ones whose shared parts multiply included. */
import { GatedDeltaError, UnsupportedError } from "../../errors.ts";

/** The most values of JSON in a schema, and the most within each other. */
const mostValues = 200_000;
const deepestValue = 2000;

/**
 * @param value JSON, or what becomes it.
 * @throws {UnsupportedError} that names the argument.
 */
export function expectSmall(op: string, argument: string, value: unknown): void {
  let level: object[] = isParent(value) ? [value] : [];
  // A level at a time: a cycle goes on until it is too deep, and shared parts count each time.
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

/** Whether JSON goes on within a value. What has a method of its own for that says so itself. */
const isParent = (value: unknown): value is object => typeof value === "object" && value !== null && typeof (value as { toJSON?: unknown }).toJSON !== "function";

function tooLarge(op: string, argument: string, expected: string): GatedDeltaError {
  return new UnsupportedError({ op, argument, expected, received: "more" });
}
