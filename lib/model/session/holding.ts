import type { Sequence } from "../sequence.ts";
import { sequenceParts } from "../sequence.ts";
import type { Verification } from "../verification.ts";
import type { PageList } from "../page-ledger.ts";
import type { Conversation } from "./conversation.ts";

/**
 * A sequence and the sessions that hold it: one, or several forks that have read nothing since. The sequence is disposed
 * when the last holder leaves.
 */
export class Holding {
  readonly sequence: Sequence;
  readonly #holders = new Set<Conversation>();
  readonly #ended: (holding: Holding) => void;
  /** How many saves are reading the sequence. */
  #readers = 0;

  /** @param ended called after the sequence is disposed. */
  constructor(sequence: Sequence, ended: (holding: Holding) => void) {
    this.sequence = sequence;
    this.#ended = ended;
  }

  get holders(): ReadonlySet<Conversation> {
    return this.#holders;
  }

  /** Whether the sequence has several holders or readers; then no holder may add tokens. */
  get shared(): boolean {
    return this.#holders.size + this.#readers > 1;
  }

  /** Whether a save is reading the sequence, so that its memory can't be taken now. */
  get read(): boolean {
    return this.#readers > 0;
  }

  /** Whether the sequence can be continued. */
  get valid(): boolean {
    return !this.sequence.disposed && this.sequence.valid;
  }

  /** The open verification of guesses, if any. */
  get verification(): Verification | undefined {
    const verification = sequenceParts(this.sequence)!.verification;
    return verification?.open === true ? verification : undefined;
  }

  /** The sequence's pages. */
  get list(): PageList {
    return sequenceParts(this.sequence)!.list;
  }

  join(holder: Conversation): this {
    this.#holders.add(holder);
    return this;
  }

  leave(holder: Conversation): void {
    if (this.#holders.delete(holder)) this.#settle();
  }

  /** Keeps the sequence unchanged while it is read. */
  async whileRead(read: () => Promise<void>): Promise<void> {
    this.#readers++;
    try {
      await read();
    } finally {
      this.#readers--;
      this.#settle();
    }
  }

  #settle(): void {
    if (this.#holders.size + this.#readers > 0) return;
    this.sequence[Symbol.dispose]();
    this.#ended(this);
  }
}
