/**
 * A bound on the work of making a grammar. Grammars are made on the thread that serves everything else, so a schema whose parts combine to
 * millions of steps must be refused after some of them. Grammars are made without a pause, so one counter is enough.
 */

/** The error for more work than is allowed. */
export class TooMuchWork extends Error {}

let left = Infinity;

/** Runs work that may {@link spend} at most this many steps. */
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
 * @throws {TooMuchWork} once there are too many.
 */
export function spend(steps: number): void {
  left -= steps;
  if (left < 0) throw new TooMuchWork();
}
