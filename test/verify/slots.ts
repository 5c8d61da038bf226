/** Which slot of a pool holds each sequence's state, from call to call. */

import type { ArrayOfDType, FloatDType } from "../../lib/tensor/dtype.ts";
import type { Span } from "../../lib/cli/verify/schedule.ts";

type Elements = ArrayOfDType[FloatDType];

/** One slot per sequence, read and written in place; or two, where every call writes the one that it does not read. */
export class Slots {
  /** How many slots the pool needs. */
  readonly count: number;
  readonly #moving: boolean;
  readonly #slotOf: Int32Array;

  constructor(sequences: number, moving: boolean) {
    this.count = moving ? 2 * sequences : sequences;
    this.#moving = moving;
    this.#slotOf = Int32Array.from({ length: sequences }, (_, sequence) => sequence);
  }

  /** The slots of one call. */
  step(spans: readonly Span[]): { readonly readSlots: Int32Array; readonly writeSlots: Int32Array } {
    const readSlots = this.#slotsOf(spans);
    if (this.#moving) {
      // A sequence's two slots are s and count − 1 − s.
      for (const { sequence } of spans) this.#slotOf[sequence] = this.count - 1 - (this.#slotOf[sequence] ?? 0);
    }
    return { readSlots, writeSlots: this.#slotsOf(spans) };
  }

  /** Copies every sequence's state out of the pool, in the order of the sequences. */
  collect(pool: Elements, target: Elements): void {
    const perSlot = this.#slotOf.length === 0 ? 0 : target.length / this.#slotOf.length;
    this.#slotOf.forEach((slot, sequence) => {
      target.set(pool.subarray(slot * perSlot, (slot + 1) * perSlot), sequence * perSlot);
    });
  }

  #slotsOf(spans: readonly Span[]): Int32Array {
    return Int32Array.from(spans, ({ sequence }) => this.#slotOf[sequence] ?? -1);
  }
}
