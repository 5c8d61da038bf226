/** A device's submissions: progress, failures, and waiting. */
import { TimeoutError } from "../errors.ts";
import type { Pins } from "../tensor/pins.ts";
import { nextTurn } from "../turns.ts";
import { Notifier } from "./notifier.ts";

/** Work expected within `below` ms is polled for at least `turns` turns and `ms` ms: longer work needs the core that turns take. */
const eager = { turns: 64, ms: 0.25, below: 2 };

/** The parts of a device that submissions need. */
export interface SubmissionSource {
  /** Kept reachable while its work is awaited, because collecting a device ends it. */
  readonly device: object;
  /**
   * [0] the low 32 bits of the number of finished submissions, [1] the number of failed ones; written by the device.
   * {@link Submissions.close} replaces it with a copy, because another device may use the memory after the native close.
   */
  status: Int32Array;
  /** The failure of a finished submission, or undefined. */
  failureOf(ticket: number, op: string): Error | undefined;
  /** Blocks until a submission has finished; returns the native call's error. */
  waitFor(ticket: number, timeoutMs: number | undefined, op: string): Error | "timeout" | undefined;
  /** The descriptor of a new socket, to which the device writes the bytes that {@link notify} asks for. */
  makeNotifier(op: string): number;
  /** Asks for a byte when a submission has finished; false if it already has. */
  notify(ticket: number, op: string): boolean;
}

/** The submissions of one device. They finish in the order of their tickets. */
export class Submissions {
  readonly #source: SubmissionSource;
  readonly #pins: Pins;
  #last = 0;
  #closed = false;
  /** Tickets up to this one have been checked for failures. */
  #examined = 0;
  /** Failures that were reported or deliberately dropped. */
  #reported = 0;
  /** Tickets whose failures are not reported. */
  readonly #ignored = new Set<number>();
  readonly #notifier = new Notifier();
  /** Milliseconds of the last two waits: a model's steps take about as long as the steps before them. */
  #times: readonly [number, number] = [0, 0];

  constructor(source: SubmissionSource, pins: Pins) {
    this.#source = source;
    this.#pins = pins;
  }

  /** The ticket of the last commit; 0 before any. */
  get last(): number {
    return this.#last;
  }

  /** Records a commit; until it is done, `owners` must stay reachable as well as those already pinned. */
  committed(ticket: number, owners?: readonly unknown[]): number {
    this.#last = ticket;
    this.#pins.commit(ticket, owners);
    this.#pins.release(this.#isFinished);
    return ticket;
  }

  /** Blocks until all committed work is done. */
  wait(op: string, timeoutMs: number | undefined): void {
    const failure = this.#isFinished(this.#last) ? undefined : this.#source.waitFor(this.#last, timeoutMs, op);
    if (failure === "timeout") throw timedOut(op, timeoutMs);
    this.#report(op, this.#last);
    // Otherwise the failure is that of the wait itself.
    if (failure !== undefined && !this.#isFinished(this.#last)) throw failure;
  }

  /**
   * Resolves when a submission and all before it are done.
   *
   * @param ticket @default the last one so far
   */
  async finish(op: string, signal: AbortSignal | undefined, timeoutMs: number | undefined, ticket = this.#last): Promise<void> {
    signal?.throwIfAborted();
    const start = performance.now(), isShort = Math.min(...this.#times) < eager.below;
    let elapsed = 0;
    for (let turn = 0; !this.#isFinished(ticket); turn++, elapsed = performance.now() - start) {
      if (timeoutMs !== undefined && elapsed >= timeoutMs) throw timedOut(op, timeoutMs);
      // Both keep the process alive; a bare promise would not.
      if (isShort && (turn < eager.turns || elapsed < eager.ms)) await nextTurn();
      else await this.#wait(ticket, (timeoutMs ?? Infinity) - elapsed, op, signal);
      signal?.throwIfAborted();
    }
    if (elapsed > 0) this.#times = [elapsed, this.#times[0]];
    if (!this.#closed) this.#report(op, ticket);
  }

  /** Keeps a failure of the last submission from being reported: only its dependents learn of it. */
  ignoreLast(): void {
    this.#ignored.add(this.#last);
  }

  /** Waits for all work before the device is closed. Failures are not reported from then on. */
  close(): void {
    this.#closed = true;
    if (!this.#isFinished(this.#last)) this.#source.waitFor(this.#last, undefined, "device.close");
    this.#source.status = this.#source.status.slice();
    this.#notifier.close();
  }

  /** Resolves when a submission has finished, or earlier. */
  #wait(ticket: number, ms: number, op: string, signal: AbortSignal | undefined): Promise<void> {
    const source = this.#source;
    return this.#notifier.wait(() => source.makeNotifier(op), () => !this.#isFinished(ticket) && source.notify(ticket, op), ms, signal);
  }

  readonly #isFinished = (ticket: number): boolean => ((Atomics.load(this.#source.status, 0) - ticket) | 0) >= 0;

  /** Throws the first unreported failure of the submissions up to a ticket. Costs one read if there is none. */
  #report(op: string, last: number): void {
    this.#pins.release(this.#isFinished);
    const { status } = this.#source;
    // Read this before the count of failures: the device counts a failure before it counts the submission.
    const all = last === this.#last && this.#isFinished(last);
    while (Atomics.load(status, 1) !== this.#reported && this.#examined < last) {
      const ticket = this.#examined + 1;
      if (!this.#isFinished(ticket)) return;
      this.#examined = ticket;
      const failure = this.#source.failureOf(ticket, op);
      if (failure !== undefined) {
        this.#reported = (this.#reported + 1) | 0;
        if (!this.#ignored.delete(ticket)) throw failure;
      }
    }
    // Every failure was reported, so finished submissions need no further check.
    if (!all) return;
    this.#examined = this.#last;
    this.#ignored.clear();
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
