import type { Sequence } from "../sequence.ts";
import { snapshotOf } from "../snapshot.ts";
import type { SequenceSnapshot } from "../snapshot.ts";

/** How much memory of the host's copies of states, keys and values may take. */
export class SwapSpace {
  readonly capacity: number;
  #used = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Bytes of the copies that are there. */
  get used(): number {
    return this.#used;
  }

  /**
   * Whether there is room for so many bytes more.
   *
   * @param leaving bytes of a copy that is put back next.
   */
  fits(bytes: number, leaving: number): boolean {
    return this.#used + bytes - leaving <= this.capacity;
  }

  /** Copies a sequence of so many bytes. Waits for pending work. */
  take(sequence: Sequence, bytes: number): Stored {
    const stored = new Stored(snapshotOf(sequence), bytes, () => (this.#used -= bytes));
    this.#used += bytes;
    return stored;
  }
}

/** What a sequence was, in memory of the host's, for the sessions that will go on from it. */
export class Stored {
  readonly snapshot: SequenceSnapshot;
  /** What it takes of the {@link SwapSpace}. */
  readonly bytes: number;
  readonly #ended: () => void;
  #holders = 0;

  /** @param ended called when no session wants it any more. */
  constructor(snapshot: SequenceSnapshot, bytes = 0, ended: () => void = () => {}) {
    this.snapshot = snapshot;
    this.bytes = bytes;
    this.#ended = ended;
  }

  join(): this {
    this.#holders++;
    return this;
  }

  leave(): void {
    if (--this.#holders === 0) this.#ended();
  }
}
