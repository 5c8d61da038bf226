/**
 * A bound on the work of making a grammar. It is made on the thread that serves everything else, so a schema whose parts combine to millions
 * of steps must be refused after a part of them. Grammars are made without a pause, so one counter is enough.
 */

/** There was more work than was allowed. */
export class TooMuchWork extends Error {}

let left = Infinity;

/** Runs work that may {@link spend} only so many steps. */
export function withEffort<T>(most: number, work: () => T): T {
  const before = left;
  left = most;
  try {
    return work();
  } finally {
    left = before;
  }
}

/**
 * Counts steps.
 *
 * @throws {TooMuchWork} once there were too many.
 */
export function spend(steps: number): void {
  left -= steps;
  if (left < 0) throw new TooMuchWork();
}
