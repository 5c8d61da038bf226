/** How a wait for work passes its time, in milliseconds. */

/**
 * `turn`: a turn of the event loop. `nap`: blocked in a native wait, which ends with the work, and then a turn. `sleep`: the event
 * loop is free, and the end of the work is noticed when the sleep ends, up to a millisecond later than asked for.
 */
export type Pause = { readonly how: "turn" } | { readonly how: "nap" | "sleep"; readonly ms: number };

/** Work that is expected within `below` is noticed within microseconds, for so many turns and so long. Longer work needs the core that turns take. */
const eager = { turns: 64, ms: 0.25, below: 2 };
/** Around the expected end a wait naps: from `early` before it to `late` after it, shares of the expected time with an upper limit, and what a sleep overshoots. */
const early = { share: 0.15, most: 12, sleep: 1 };
const late = { share: 0.3, most: 25, sleep: 1.5 };

/** The pauses of a device's waits, which it adapts to: steps of a model take about as long as those before. */
export class Pauses {
  /** The two last waits; before them none is expected to end. */
  #times: readonly [number, number] = [Infinity, Infinity];

  /** A wait has ended after so long. */
  ended(elapsed: number): void {
    this.#times = [elapsed, this.#times[0]];
  }

  /**
   * The next pause of a wait that has had so many.
   *
   * Each end of a pause takes a core from the work for a moment, so they are few. Sleeps are up to half of the expected time or of the
   * time so far, or a hundredth of it after the expected end: work that ends in one is noticed late by as much. Naps are short, so that
   * the event loop keeps turning.
   */
  next(pauses: number, elapsed: number): Pause {
    const expected = Math.min(...this.#times);
    const isEager = expected < eager.below || expected === Infinity;
    if (isEager && (pauses < eager.turns || elapsed < eager.ms)) return { how: "turn" };
    const begin = expected - Math.min(early.share * expected, early.most) - early.sleep;
    const end = expected + Math.min(late.share * expected, late.most) + late.sleep;
    if (elapsed >= end) return { how: "sleep", ms: within(elapsed / 100, 1, 10) };
    // Timers are no finer than a millisecond.
    const longest = Math.max(expected === Infinity ? 0 : expected, elapsed) / 2;
    if (begin - elapsed >= 1) return { how: "sleep", ms: Math.min(begin - elapsed, within(longest, 1, 10)) };
    return { how: "nap", ms: within(elapsed / 8, 0.25, 2) };
  }
}

function within(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
