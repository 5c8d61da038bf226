/** A server's use of a store that may be slow or away: a request never waits long for it, and never fails because of it. */
import { within } from "../event-stream.ts";
import type { StoreFigures } from "./store-figures.ts";

/** Milliseconds without the store after it has failed, so that each request does not find that out for itself. */
const pause = 5000;

export class StoreLink {
  readonly #figures: StoreFigures;
  #awayUntil = 0;
  #warned = false;

  constructor(figures: StoreFigures) {
    this.#figures = figures;
  }

  /** Whether it is worth trying. */
  get there(): boolean {
    return performance.now() >= this.#awayUntil;
  }

  /** The result of some work with the store; undefined if it fails or takes longer than so many milliseconds. */
  async try<T>(milliseconds: number, work: () => Promise<T>): Promise<T | undefined> {
    if (!this.there) return undefined;
    try {
      const result = await within(work().then((value) => ({ value })), milliseconds);
      if (result === undefined) throw new Error(`it did not answer within ${milliseconds / 1000} s`);
      this.#warned = false;
      return result.value;
    } catch (error) {
      this.#figures.failures++;
      this.#awayUntil = performance.now() + pause;
      if (!this.#warned) {
        this.#warned = true;
        const message = `the store of conversations fails: ${error instanceof Error ? error.message : String(error)}. Conversations that it may have are read again`;
        process.emitWarning(message, { code: "GATED_DELTA_STORE", type: "GatedDeltaWarning" });
      }
      return undefined;
    }
  }
}
