/** The positions of a step's checkpoints, as callers pass them. */
import { asInteger, invalid, largestIndex } from "./check.ts";
import { ShapeError } from "./errors.ts";

/** The checkpoints of a step: one list of positions a handle. How many tokens there are is for the ops to know. */
export function asPositions(op: string, value: unknown, count: number): readonly (readonly number[])[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw invalid(op, "checkpoints", "an array of arrays of positions", value);
  const lists = [...(value as unknown[])];
  if (lists.length !== count) {
    throw new ShapeError({ op, argument: "checkpoints", expected: `${count} lists, one a handle`, received: `${lists.length}` });
  }
  return lists.map((list, i) => {
    const argument = `checkpoints[${i}]`;
    if (!Array.isArray(list)) throw invalid(op, argument, "an array of positions", list);
    return [...(list as unknown[])].map((position) => asInteger(op, argument, position, 0, largestIndex));
  });
}
