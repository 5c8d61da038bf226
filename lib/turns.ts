/** Splits long work over turns of the event loop, so that other work does not wait for it. */

/** Milliseconds of work after which other work gets a turn. */
const longestStretch = 5;

/** Resolves in a later turn of the event loop, after the work that is due. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Returns a function that awaits {@link nextTurn} once this turn has lasted {@link longestStretch}. */
export function turns(): () => Promise<void> {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < longestStretch) return;
    await nextTurn();
    last = performance.now();
  };
}
