/** A device's submissions: which are done, which failed, and waiting for them. */
import { TimeoutError } from "../errors.ts";
import type { Pins } from "../tensor/pins.ts";

/**
 * How long to poll once a turn of the event loop before sleeping 1 ms between polls. Short work is noticed within
 * microseconds; long work does not keep a core busy that it could use itself.
 */
const eagerTurns = 64;
const eagerMs = 0.25;

/** What submissions need of a device. */
export interface SubmissionSource {
  /** [0] the low 32 bits of the number of finished submissions, [1] the number of failed ones; written by the device. */
  readonly status: Int32Array;
  /** The failure of a finished submission, or undefined. */
  failureOf(ticket: number, op: string): Error | undefined;
  /** Blocks until a submission has finished; returns what the native call reported. */
  waitFor(ticket: number, timeoutMs: number | undefined, op: string): Error | "timeout" | undefined;
}

/** The submissions of one device. They finish in the order of their tickets. */
export class Submissions {
  readonly #source: SubmissionSource;
  readonly #pins: Pins;
  #last = 0;
  #closed = false;
  /** Tickets up to this one have been looked at for failures. */
  #examined = 0;
  /** Failures that were reported or deliberately dropped. */
  #reported = 0;

  constructor(source: SubmissionSource, pins: Pins) {
    this.#source = source;
    this.#pins = pins;
  }

  /** The ticket of the last commit; 0 before any. */
  get last(): number {
    return this.#last;
  }

  /** Notes a commit, and what it must keep reachable besides what was pinned. */
  committed(ticket: number, owners?: readonly unknown[]): number {
    this.#last = ticket;
    this.#pins.commit(ticket, owners);
    this.#pins.release(this.#isFinished);
    return ticket;
  }

  /** Blocks until all that was committed is done. */
  wait(op: string, timeoutMs: number | undefined): void {
    const failure = this.#isFinished(this.#last) ? undefined : this.#source.waitFor(this.#last, timeoutMs, op);
    if (failure === "timeout") throw timedOut(op, timeoutMs);
    this.#report(op);
    // A failure that no submission owns up to is that of the call itself.
    if (failure !== undefined && !this.#isFinished(this.#last)) throw failure;
  }

  /** Resolves when all that is committed now is done. */
  async finish(op: string, signal: AbortSignal | undefined, timeoutMs: number | undefined): Promise<void> {
    signal?.throwIfAborted();
    const ticket = this.#last;
    const start = performance.now();
    for (let turn = 0; !this.#isFinished(ticket); turn++) {
      const elapsed = performance.now() - start;
      if (timeoutMs !== undefined && elapsed >= timeoutMs) throw timedOut(op, timeoutMs);
      // Both keep the process alive; a bare promise would not.
      if (turn < eagerTurns || elapsed < eagerMs) await new Promise<void>((resolve) => void setImmediate(resolve));
      else await Bun.sleep(1);
      signal?.throwIfAborted();
    }
    if (!this.#closed) this.#report(op);
  }

  /** The device was closed: everything is done, and there is nobody left to ask about failures. */
  close(): void {
    this.#closed = true;
  }

  readonly #isFinished = (ticket: number): boolean => ((Atomics.load(this.#source.status, 0) - ticket) | 0) >= 0;

  /** Throws the first failure that was not reported yet. Costs one read where there is none. */
  #report(op: string): void {
    this.#pins.release(this.#isFinished);
    const { status } = this.#source;
    // Asked before the count of failures is read: the device counts a failure before it counts the submission.
    const all = this.#isFinished(this.#last);
    while (Atomics.load(status, 1) !== this.#reported && this.#examined < this.#last) {
      const ticket = this.#examined + 1;
      if (!this.#isFinished(ticket)) return;
      this.#examined = ticket;
      const failure = this.#source.failureOf(ticket, op);
      if (failure !== undefined) {
        this.#reported = (this.#reported + 1) | 0;
        throw failure;
      }
    }
    // Nothing failed that was not reported: what is finished need not be looked at again.
    if (!all) return;
    this.#examined = this.#last;
    this.#reported = Atomics.load(status, 1);
  }
}

function timedOut(op: string, timeoutMs: number | undefined): TimeoutError {
  return new TimeoutError({
    op,
    expected: `the work to be done within ${timeoutMs} ms`,
    received: "work still pending",
  });
}
