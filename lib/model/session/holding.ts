import type { Sequence } from "../sequence.ts";
import { sequenceParts } from "../sequence.ts";
import type { Verification } from "../verification.ts";
import type { PageList } from "../page-ledger.ts";
import type { Conversation } from "./conversation.ts";

/**
 * A sequence, and the sessions that go on from it: one, or several that were forked from one another and have read
 * nothing since. It is disposed when the last of them has left it.
 */
export class Holding {
  readonly sequence: Sequence;
  readonly #holders = new Set<Conversation>();
  readonly #ended: (holding: Holding) => void;
  /** Those that read it while they save a session. */
  #readers = 0;

  /** @param ended called when the sequence was disposed. */
  constructor(sequence: Sequence, ended: (holding: Holding) => void) {
    this.sequence = sequence;
    this.#ended = ended;
  }

  get holders(): ReadonlySet<Conversation> {
    return this.#holders;
  }

  /** Whether several have it: none of them may add tokens to the sequence. */
  get shared(): boolean {
    return this.#holders.size + this.#readers > 1;
  }

  /** Whether it is being read, so that its memory can't be given back now. */
  get read(): boolean {
    return this.#readers > 0;
  }

  /** Whether its sequence can be gone on from. */
  get valid(): boolean {
    return !this.sequence.disposed && this.sequence.valid;
  }

  /** The verification of guesses that is open. */
  get verification(): Verification | undefined {
    const verification = sequenceParts(this.sequence)!.verification;
    return verification?.open === true ? verification : undefined;
  }

  /** Its pages. */
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

  /** Keeps the sequence as it is while it is read. */
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
