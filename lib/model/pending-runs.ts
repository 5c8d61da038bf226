/** A model's runs between their commit and the end of their work. */
import { finishUpTo } from "../device/device.ts";
import type { Device } from "../device/device.ts";
import type { Content } from "../states/content.ts";
import { holderOf } from "../states/state-handle.ts";
import type { Entry } from "./batch.ts";

export class PendingRuns {
  readonly #device: Device;
  /** Settles when the last awaited work is over; undefined if none is pending. */
  #last: Promise<void> | undefined;
  #withResults = false;
  /** Whether work that no run waits for has been committed since then. */
  #unawaited = false;
  /** The failure of such work, if the failure belongs to no run. */
  #left: { readonly error: unknown } | undefined;

  constructor(device: Device) {
    this.#device = device;
  }

  /** Whether a run with requested logits or hidden states is pending. */
  get withResults(): boolean {
    return this.#withResults;
  }

  /** Records work that was just committed and that no run waits for, so that its states learn how it ends. */
  follow(): void {
    this.#unawaited = true;
  }

  /** Settles when all currently pending work is over, failed or not. */
  async over(): Promise<void> {
    const before = this.#last;
    if (!this.#unawaited) return before;
    this.#unawaited = false;
    // Later calls, such as the next run, wait for this.
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
      this.#left ??= { error }; // the device reports it only once, so keep it for the next run
    }
  }

  /**
   * Waits for the work of a batch.
   *
   * @param ticket of the batch's submission, if later ones that no run waits for were committed. @default the last one
   * @throws the failure of this run, or of an earlier one that it depends on, if it made a sequence of the batch invalid.
   *   Otherwise the failure of other work on the device, as `device.finish`.
   */
  async wait(entries: readonly Entry[], ticket?: number): Promise<void> {
    const contents = entries.map(({ parts }): Content => holderOf(parts.handle).content);
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    const withResults = entries.some(({ logits, hidden }) => logits !== "none" || hidden !== "none");
    this.#last = promise;
    this.#withResults = withResults;
    this.#unawaited = ticket !== undefined;
    let other: unknown;
    try {
      // The device reports a failure to the first caller, which must be the run that failed.
      if (before !== undefined) await before;
      await (ticket === undefined ? this.#device.finish() : this.#device[finishUpTo](ticket));
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
