import type { GatedDeltaError } from "../../errors.ts";

/** After this long without a call from its consumer, a request counts as idle and its memory can be taken. */
const pauseMilliseconds = 250;

/** One request of a session, from its start to its end: an answer, or the reading of appended tokens. */
export class Request {
  /** Order of arrival: smaller is earlier. */
  readonly age: number;
  readonly whenFull: "wait" | "error";
  /** Pages that must be available before the request starts again: one more than it had when it gave way. */
  floor = 0;
  /** Whether the request came before all others that wait for a step. */
  first = false;
  /** Bytes of the copy in the host's memory from which the request starts. */
  stored = 0;
  /** The request's error if it gave way and does not wait. */
  refused: GatedDeltaError | undefined;
  /** When the consumer last stopped asking for pieces; undefined while the request waits for a step or is in one. */
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

  /** Whether the consumer has not asked for a piece for {@link pauseMilliseconds}. */
  get paused(): boolean {
    return this.#restsSince !== undefined && performance.now() - this.#restsSince > pauseMilliseconds;
  }
}
