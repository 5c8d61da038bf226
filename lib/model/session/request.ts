import type { GatedDeltaError } from "../../errors.ts";

/** How long a consumer may leave a request alone before what the request has can be taken as if its session were idle. */
const pauseMilliseconds = 250;

/** An answer, or the reading of what was appended, from its beginning to its end. */
export class Request {
  /** Requests that came earlier have a smaller one. */
  readonly age: number;
  readonly whenFull: "wait" | "error";
  /** Pages that it must be able to have before it starts again: it gave way when it had one fewer. */
  floor = 0;
  /** Whether it came before all others that wait for a step. */
  first = false;
  /** Bytes of the copy, in the host's memory, that it begins with. */
  stored = 0;
  /** Why it can't go on: it gave way, and does not want to wait. */
  refused: GatedDeltaError | undefined;
  /** Since when its consumer has asked for nothing; undefined while it waits for a step or is in one. */
  #restsSince: number | undefined = performance.now();

  constructor(age: number, whenFull: "wait" | "error") {
    this.age = age;
    this.whenFull = whenFull;
  }

  works(): void {
    this.#restsSince = undefined;
  }

  rests(): void {
    this.#restsSince = performance.now();
  }

  /** Whether its consumer has left it alone for long. */
  get paused(): boolean {
    return this.#restsSince !== undefined && performance.now() - this.#restsSince > pauseMilliseconds;
  }
}
