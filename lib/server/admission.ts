/** Limits how many requests are answered at a time; the others wait. */
import { Problem } from "./problem.ts";

export interface AdmissionLimits {
  readonly concurrent: number;
  readonly queue: number;
  readonly queueSeconds: number;
}

/** Gives requests their turn, first come first served. */
export class Admission {
  readonly #limits: AdmissionLimits;
  #working = 0;
  /** Waiting requests, in the order of their arrival. */
  readonly #waiting = new Set<() => void>();
  #closed = false;
  #emptied: (() => void) | undefined;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /** How many requests wait for their turn. */
  get waiting(): number {
    return this.#waiting.size;
  }

  get active(): number {
    return this.#working + this.#waiting.size;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Waits for a turn.
   *
   * @returns a function that ends the turn, to be called once.
   * @throws {Problem} if too many wait, the wait gets too long, or no more are let in; the signal's reason.
   */
  async enter(signal: AbortSignal): Promise<() => void> {
    const { concurrent, queue, queueSeconds } = this.#limits;
    signal.throwIfAborted();
    if (this.#closed) throw new Problem("overloaded", "the server is about to end", { retryAfter: 5 });
    if (this.#working >= concurrent) {
      if (this.#waiting.size >= queue) throw new Problem("overloaded", `${this.#waiting.size} requests are waiting already`, { retryAfter: 5 });
      await this.#turn(signal, queueSeconds);
    } else {
      this.#working++;
    }
    return () => {
      this.#working--;
      this.#next();
    };
  }

  /** Lets no more requests in. Resolves when all have left. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.active === 0) return;
    const before = this.#emptied;
    await new Promise<void>((resolve) => {
      this.#emptied = () => {
        before?.();
        resolve();
      };
    });
  }

  #turn(signal: AbortSignal, seconds: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const done = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", left);
        this.#waiting.delete(begin);
      };
      const begin = (): void => {
        done();
        this.#working++; // now, so that no other request takes the place before this one continues
        resolve();
      };
      const fail = (reason: unknown): void => {
        done();
        reject(reason);
        this.#next();
      };
      const left = (): void => fail(signal.reason);
      const timer = setTimeout(() => fail(new Problem("overloaded", `no turn came within ${seconds} s`, { retryAfter: Math.ceil(seconds) })), 1000 * seconds);
      signal.addEventListener("abort", left);
      this.#waiting.add(begin);
    });
  }

  #next(): void {
    const [first] = this.#waiting;
    if (first !== undefined && this.#working < this.#limits.concurrent) first();
    else if (this.active === 0) this.#emptied?.();
  }
}
