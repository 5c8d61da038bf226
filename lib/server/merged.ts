/** The values of several generators, in the order in which they come. Leaving this generator, or a failure of one, ends all. */
export async function* merged<T>(generators: readonly AsyncGenerator<T, void, void>[]): AsyncGenerator<T, void, void> {
  if (generators.length === 1) return yield* generators[0]!;
  const next = (one: AsyncGenerator<T, void, void>) => one.next().then((result) => ({ one, result }));
  const pending = new Map(generators.map((one) => [one, next(one)]));
  try {
    while (pending.size > 0) {
      const { one, result } = await Promise.race(pending.values());
      if (result.done) pending.delete(one);
      else {
        pending.set(one, next(one));
        yield result.value;
      }
    }
  } finally {
    for (const left of pending.values()) left.catch(() => {}); // of one failure the others are the consequence
    await Promise.allSettled(generators.map((one) => one.return()));
  }
}
