/** A device's submissions: which are done, which failed, and waiting for them. */
import { TimeoutError } from "../errors.ts";
import type { Pins } from "../tensor/pins.ts";

/**
 * How `finish` waits. At first it looks once a turn of the event loop, so that short work is noticed within microseconds.
 * Around the time at which the last wait was over it lets the native side wake it, in naps that are short beside what a
 * turn of an event loop may take: an engine's timers are no finer than a millisecond. Otherwise it sleeps that long
 * between looks: long work does not keep a core busy that it could use itself.
 */
const eagerTurns = 64;
const eagerMs = 0.25;
const sleepMs = 1;
const napMs = 0.25;
/** A wait that ended in a sleep took up to a sleep too long: a sleep that begins before the naps ends before its true end. */
const napsBeforeMs = 2.5 * sleepMs;
const napsAfterMs = sleepMs;

/** What submissions need of a device. */
export interface SubmissionSource {
  /** Kept reachable while somebody awaits its work: the collection of a device ends it. */
  readonly device: object;
  /**
   * [0] the low 32 bits of the number of finished submissions, [1] the number of failed ones; written by the device, and
   * a copy once {@link Submissions.close} has run: the words are another device's after the native close.
   */
  status: Int32Array;
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
  /** How long the last `finish` that had to wait took. */
  #lastWaitMs = 0;

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
    // A failure that belongs to no submission is that of the call itself.
    if (failure !== undefined && !this.#isFinished(this.#last)) throw failure;
  }

  /** Resolves when all that is committed now is done. */
  async finish(op: string, signal: AbortSignal | undefined, timeoutMs: number | undefined): Promise<void> {
    signal?.throwIfAborted();
    const ticket = this.#last;
    const start = performance.now();
    let turn = 0;
    for (; !this.#isFinished(ticket); turn++) {
      const elapsed = performance.now() - start;
      if (timeoutMs !== undefined && elapsed >= timeoutMs) throw timedOut(op, timeoutMs);
      // Both keep the process alive; a bare promise would not.
      const eager = turn < eagerTurns || elapsed < eagerMs;
      const late = elapsed - this.#lastWaitMs;
      if (eager || (late > -napsBeforeMs && late < napsAfterMs)) {
        if (!eager) this.#source.waitFor(ticket, napMs, op);
        await new Promise<void>((resolve) => void setImmediate(resolve));
      } else {
        await Bun.sleep(sleepMs);
      }
      signal?.throwIfAborted();
    }
    if (turn > 0) this.#lastWaitMs = performance.now() - start;
    if (!this.#closed) this.#report(op);
  }

  /** Before the device is closed: waits until everything is done, and reports no failure any more. */
  close(): void {
    this.#closed = true;
    if (!this.#isFinished(this.#last)) this.#source.waitFor(this.#last, undefined, "device.close");
    this.#source.status = this.#source.status.slice();
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
