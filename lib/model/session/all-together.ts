/**
 * Runs several tasks at once. The first failure ends the others, and is thrown when all are over.
 *
 * @param signal ends all tasks.
 * @param start starts the tasks, with a signal that ends them.
 */
export async function allTogether<T>(signal: AbortSignal | undefined, start: (signal: AbortSignal) => readonly Promise<T>[]): Promise<T[]> {
  const failed = new AbortController();
  const running = start(signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]));
  let first: { readonly error: unknown } | undefined;
  const watched = running.map((one) => one.catch((error: unknown) => {
    first ??= { error };
    failed.abort();
    throw error;
  }));
  await Promise.allSettled(watched);
  if (first !== undefined) throw first.error;
  return await Promise.all(watched);
}
