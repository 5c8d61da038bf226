import type { Sequence } from "../sequence.ts";
import { snapshotOf } from "../snapshot.ts";
import type { SequenceSnapshot } from "../snapshot.ts";

/** Limits the host memory for copies of states, keys and values. */
export class SwapSpace {
  readonly capacity: number;
  #used = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Bytes of all existing copies. */
  get used(): number {
    return this.#used;
  }

  /**
   * Whether there is room for that many more bytes.
   *
   * @param leaving bytes of a copy that is about to be restored.
   */
  fits(bytes: number, leaving: number): boolean {
    return this.#used + bytes - leaving <= this.capacity;
  }

  /** Copies a sequence of that many bytes. Waits for pending work. */
  take(sequence: Sequence, bytes: number): Stored {
    const stored = new Stored(snapshotOf(sequence), bytes, () => (this.#used -= bytes));
    this.#used += bytes;
    return stored;
  }
}

/** A copy of a sequence in the host's memory, for the sessions that will continue from it. */
export class Stored {
  readonly snapshot: SequenceSnapshot;
  /** The copy's bytes in the {@link SwapSpace}. */
  readonly bytes: number;
  readonly #ended: () => void;
  #holders = 0;

  /** @param ended called when the last session has left the copy. */
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
