/** The positions of a step's checkpoints, as callers pass them. */
import { asInteger, largestIndex } from "../arguments/checks.ts";
import { ShapeError } from "../errors.ts";
import { asArray } from "../arguments/reading.ts";

/**
 * The checkpoints of a step: one list of positions a handle. How many tokens there are is for the ops to know.
 *
 * @param most more lists or positions than this are refused unread.
 */
export function asPositions(op: string, value: unknown, count: number, most: number): readonly (readonly number[])[] {
  if (value === undefined) return [];
  const lists = asArray(op, "checkpoints", "an array of arrays of positions", value, most);
  if (lists.length !== count) {
    throw new ShapeError({ op, argument: "checkpoints", expected: `${count} lists, one a handle`, received: `${lists.length}` });
  }
  return lists.map((list, i) => {
    const argument = `checkpoints[${i}]`;
    const positions = asArray(op, argument, "an array of positions", list, most);
    return positions.map((position) => asInteger(op, argument, position, 0, largestIndex));
  });
}
