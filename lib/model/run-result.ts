import { GatedDeltaError } from "../errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Sequence } from "./sequence.ts";

/** How long the results of one run can be read: until the model's next run. */
export class Lease {
  #over: string | undefined;
  #memory: Tensor | undefined;

  /** Gives the results memory of their own, which goes with them. */
  own(memory: Tensor): void {
    this.#memory = memory;
  }

  /** @param why what has happened to the memory. */
  end(why: string): void {
    this.#over ??= why;
    this.#memory?.[Symbol.dispose]();
    this.#memory = undefined;
  }

  /** Throws where it is over. */
  expectOpen(op: string): void {
    if (this.#over !== undefined) throw new GatedDeltaError("state", { op, message: this.#over });
  }
}

/** Makes a result. */
export let makeResult: (sequence: Sequence, lease: Lease, logits: Float32Array | undefined, vocabSize: number) => RunResult;

let making = false;

/** What a run gave for one entry of its batch. */
export class RunResult {
  /** The entry's sequence. */
  readonly sequence: Sequence;
  /** Rows of {@link logits}: 1, or as many as the entry had tokens, or 0 where none were wanted. */
  readonly rows: number;
  readonly #lease: Lease;
  readonly #logits: Float32Array | undefined;

  private constructor(sequence: Sequence, lease: Lease, logits: Float32Array | undefined, vocabSize: number) {
    if (!making) throw new GatedDeltaError("invalid-argument", { op: "RunResult", expected: "what model.run(…) gives" });
    this.sequence = sequence;
    this.rows = logits === undefined ? 0 : logits.length / vocabSize;
    this.#lease = lease;
    this.#logits = logits;
    Object.freeze(this);
  }

  static {
    makeResult = (sequence, lease, logits, vocabSize) => {
      making = true;
      try {
        return new RunResult(sequence, lease, logits, vocabSize);
      } finally {
        making = false;
      }
    };
  }

  /**
   * `[rows, vocabSize]`, row after row, in memory that the model's next run writes: the array is that memory, and no copy.
   * Keep numbers beyond that with `logits.slice()`.
   *
   * @throws {GatedDeltaError} of code `state` once the model has run again or was disposed, and where the entry wanted no
   *   logits.
   */
  get logits(): Float32Array {
    const op = "result.logits";
    if (this.#logits === undefined) {
      throw new GatedDeltaError("state", { op, message: `the batch's entry asked for logits: "none"` });
    }
    this.#lease.expectOpen(op);
    return this.#logits;
  }
}
