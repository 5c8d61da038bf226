/** A device's submissions: which are done, which failed, and waiting for them. */
import { TimeoutError } from "./errors.ts";
import { failureOf, waitFor } from "./native/device.ts";
import type { Handle } from "./native/handle.ts";
import type { Pins } from "./pins.ts";

/**
 * How long to poll once a turn of the event loop before sleeping 1 ms between polls. Short work is noticed within
 * microseconds; long work does not keep a core busy that it could use itself.
 */
const eagerTurns = 64;
const eagerMs = 0.25;

/** The submissions of one device. They finish in the order of their tickets. */
export class Submissions {
  readonly #device: Handle;
  /** [0] the low 32 bits of the number of finished submissions, [1] the number of failed ones. */
  readonly #status: Int32Array;
  readonly #pins: Pins;
  #last = 0;
  #closed = false;
  /** Tickets up to this one have been looked at for failures. */
  #examined = 0;
  /** Failures that were reported or deliberately dropped. */
  #reported = 0;

  constructor(device: Handle, status: Int32Array, pins: Pins) {
    this.#device = device;
    this.#status = status;
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
    const failure = this.#isFinished(this.#last) ? undefined : waitFor(this.#device, this.#last, timeoutMs, op);
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

  readonly #isFinished = (ticket: number): boolean => ((Atomics.load(this.#status, 0) - ticket) | 0) >= 0;

  /** Throws the first failure that was not reported yet. Costs one read where there is none. */
  #report(op: string): void {
    this.#pins.release(this.#isFinished);
    while (Atomics.load(this.#status, 1) !== this.#reported && this.#examined < this.#last) {
      const ticket = this.#examined + 1;
      if (!this.#isFinished(ticket)) return;
      this.#examined = ticket;
      const failure = failureOf(this.#device, ticket, op);
      if (failure !== undefined) {
        this.#reported = (this.#reported + 1) | 0;
        throw failure;
      }
    }
    if (Atomics.load(this.#status, 1) === this.#reported && this.#isFinished(this.#last)) this.#examined = this.#last;
  }
}

function timedOut(op: string, timeoutMs: number | undefined): TimeoutError {
  return new TimeoutError({ op, expected: `the work to be done within ${timeoutMs} ms`, received: "work still pending" });
}
