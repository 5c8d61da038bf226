/** Runs a caller's functions over a copy of the logits. */
import { GatedDeltaError, describe } from "../../errors.ts";
import type { LogitsProcessor } from "./settings.ts";

export class Processing {
  readonly #processors: readonly LogitsProcessor[];
  readonly #vocabSize: number;
  #tokens = new Int32Array(256);
  #length = 0;

  constructor(processors: readonly LogitsProcessor[], vocabSize: number) {
    this.#processors = processors;
    this.#vocabSize = vocabSize;
  }

  /** Adds a token that precedes the next position. */
  saw(token: number): void {
    if (this.#length === this.#tokens.length) {
      const longer = new Int32Array(2 * this.#length);
      longer.set(this.#tokens);
      this.#tokens = longer;
    }
    this.#tokens[this.#length++] = token;
  }

  /**
   * The logits as the processors leave them. Each processor gets separate memory, which it may detach or keep.
   *
   * @throws what a processor throws; {@link GatedDeltaError} for one that returns a promise, or that takes the logits' memory away.
   */
  run(logits: Float32Array): Float32Array {
    let row = logits.slice();
    for (const [i, process] of this.#processors.entries()) {
      const argument = `processors[${i}]`;
      const returned: unknown = process(row, this.#tokens.slice(0, this.#length));
      if (typeof (returned as { then?: unknown } | undefined)?.then === "function") {
        (returned as Promise<unknown>).then(undefined, () => {}); // its failure is not the error of this call
        throw new GatedDeltaError("invalid-argument", { op: "sample", argument, expected: "a function that returns nothing", received: "one that returns a promise" });
      }
      if (row.length !== this.#vocabSize) {
        throw new GatedDeltaError("invalid-argument", { op: "sample", argument, expected: `${this.#vocabSize} logits afterwards`, received: describe(row) });
      }
      // A view that the processor has kept must not change later results.
      row = row.slice();
    }
    return row;
  }
}
