/** A model's runs between their commit and the end of their work. */
import type { Device } from "../device/device.ts";
import type { Content } from "../states/content.ts";
import { holderOf } from "../states/state-handle.ts";
import type { Entry } from "./batch.ts";

export class PendingRuns {
  readonly #device: Device;
  /** Settles when the last work is over that anything waits for; undefined where nothing is pending. */
  #last: Promise<void> | undefined;
  #withResults = false;
  /** Whether work was committed since that no run waits for. */
  #unawaited = false;
  /** The failure of such work, where it is no run's. */
  #left: { readonly error: unknown } | undefined;

  constructor(device: Device) {
    this.#device = device;
  }

  /** Whether a run whose logits or hidden states are wanted is pending. */
  get withResults(): boolean {
    return this.#withResults;
  }

  /** Notes work that was committed just now and that no run waits for: its states know how it ends. */
  follow(): void {
    this.#unawaited = true;
  }

  /** Settles when the work is over that is pending now, whatever comes of it. */
  async over(): Promise<void> {
    const before = this.#last;
    if (!this.#unawaited) return before;
    this.#unawaited = false;
    // What is called from now on, such as the next run, comes after this.
    const over = this.#finish(before);
    this.#last = over;
    await over;
    if (this.#last === over) this.#last = undefined;
  }

  async #finish(before: Promise<void> | undefined): Promise<void> {
    await before;
    try {
      await this.#device.finish();
    } catch (error) {
      this.#left ??= { error }; // the device tells it once, and the next run is who must know
    }
  }

  /**
   * Waits for the work of a batch that was committed just now.
   *
   * @throws why one of the batch's sequences does not hold what its tokens make: the failure of this run, or of one that
   *   it followed. Where all do, the failure of other work on the device, as `device.finish`.
   */
  async wait(entries: readonly Entry[]): Promise<void> {
    const contents = entries.map(({ parts }): Content => holderOf(parts.handle).content);
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    const withResults = entries.some(({ logits, hidden }) => logits !== "none" || hidden !== "none");
    this.#last = promise;
    this.#withResults = withResults;
    this.#unawaited = false;
    let other: unknown;
    try {
      // The device tells a failure to the first one who asks: so that is the run that failed.
      if (before !== undefined) await before;
      await this.#device.finish();
    } catch (error) {
      other = error;
    } finally {
      if (this.#last === promise) this.#last = undefined;
      if (withResults) this.#withResults = false;
      resolve();
    }
    for (const { failure } of contents) if (failure !== undefined) throw failure;
    other ??= this.#left?.error;
    this.#left = undefined;
    if (other !== undefined) throw other;
  }
}
