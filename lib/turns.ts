/** Work that is cut into turns of the event loop, so that nothing waits long for it. */

/** The longest that a stretch of work may take before other work has its turn, in milliseconds. */
const longestStretch = 5;

/** Lets everything else that is due run first. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A function that awaits the {@link nextTurn} where this one has lasted long enough. */
export function turns(): () => Promise<void> {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < longestStretch) return;
    await nextTurn();
    last = performance.now();
  };
}
