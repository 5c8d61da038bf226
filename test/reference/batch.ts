/** Ragged batches and slots: which rows a sequence has, which state it starts from and where its last one goes. */

export interface BatchOptions {
  /** `[n + 1]`; absent: one sequence of all rows. */
  readonly cuSeqlens?: readonly number[] | undefined;
  /** `[n]`, -1 starts from zero; absent: 0, 1, 2, … or, without a pool, -1. */
  readonly readSlots?: readonly number[] | undefined;
  /** `[n]`, -1 drops the final state; absent: the read slots. */
  readonly writeSlots?: readonly number[] | undefined;
}

export interface Sequence {
  readonly start: number;
  readonly end: number;
  readonly readSlot: number;
  readonly writeSlot: number;
}

/** The sequences of a batch. */
export function sequencesOf(options: BatchOptions, rows: number, hasPool: boolean): Sequence[] {
  const bounds = options.cuSeqlens ?? [0, rows];
  return bounds.slice(1).map((end, s) => {
    const readSlot = options.readSlots?.[s] ?? (hasPool ? s : -1);
    return { start: bounds[s]!, end, readSlot, writeSlot: options.writeSlots?.[s] ?? readSlot };
  });
}

/** A slot's numbers, copied; zeros for -1. */
export function readSlot(pool: Float64Array, slot: number, size: number): Float64Array {
  return slot < 0 ? new Float64Array(size) : pool.slice(slot * size, (slot + 1) * size);
}

/** Stores a slot's numbers; nothing for -1. */
export function writeSlot(pool: Float64Array, slot: number, values: Float64Array): void {
  if (slot >= 0) pool.set(values, slot * values.length);
}
