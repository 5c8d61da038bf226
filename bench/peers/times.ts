/** The microseconds of each call during this many milliseconds, of at least two calls. */
export function timesOf(call: () => void, milliseconds: number): number[] {
  const times: number[] = [];
  const end = Bun.nanoseconds() + milliseconds * 1e6;
  while (times.length < 2 || Bun.nanoseconds() < end) {
    const since = Bun.nanoseconds();
    call();
    times.push((Bun.nanoseconds() - since) / 1e3);
  }
  return times;
}
