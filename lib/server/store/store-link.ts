/** A server's use of a store that may be slow or unavailable: a request never waits long for it and never fails because of it. */
import { within } from "../event-stream.ts";
import type { StoreFigures } from "./store-figures.ts";

/** Milliseconds for which the store is not used after it has failed, so that not every request discovers the failure. */
const pause = 5000;

export class StoreLink {
  readonly #figures: StoreFigures;
  #awayUntil = 0;
  #warned = false;

  constructor(figures: StoreFigures) {
    this.#figures = figures;
  }

  /** Whether the store is worth trying. */
  get there(): boolean {
    return performance.now() >= this.#awayUntil;
  }

  /** The result of some work with the store; undefined if it fails or takes longer than that many milliseconds. */
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
