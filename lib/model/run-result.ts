import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { GatedDeltaError } from "../errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { BestLogits } from "./sampling/best-logits.ts";
import type { Sequence } from "./sequence.ts";
import type { Verification } from "./verification.ts";

/** The lifetime of a run's results, which the model's next run ends. */
export class Lease {
  #over: string | undefined;
  #memory: readonly Tensor[] = [];

  /** Gives the lease memory to free when it ends. */
  hold(memory: readonly Tensor[]): void {
    this.#memory = memory;
  }

  /** @param why the reason, for the error. */
  end(why: string): void {
    this.#over ??= why;
    for (const memory of this.#memory) memory[Symbol.dispose]();
    this.#memory = [];
  }

  /** Throws once the lease has ended. */
  expectOpen(op: string): void {
    if (this.#over !== undefined) throw new GatedDeltaError("state", { op, message: this.#over });
  }
}

/** Logits and hidden states of one entry, in leased memory; undefined if not requested. */
export interface ResultRows {
  readonly logits: Float32Array | undefined;
  readonly hidden: Float32Array | undefined;
  /** The largest of each row of logits, if they were requested. */
  readonly best?: readonly BestLogits[] | undefined;
}

/** One row of logits of a result, and the largest of them if they were requested. */
export interface LogitsRow {
  readonly logits: Float32Array;
  readonly best: BestLogits | undefined;
}

/** Makes a result. */
export let makeResult: (sequence: Sequence, lease: Lease, rows: ResultRows, vocabSize: number, verification?: Verification) => RunResult;

/** The verification of an entry's guesses; undefined if none was verified. */
export let verificationOf: (result: RunResult) => Verification | undefined;

/** A row of a result's logits. */
export let rowOf: (result: RunResult, row: number) => LogitsRow;

/** The result of a run for one entry of its batch. */
export class RunResult {
  /** The entry's sequence. */
  readonly sequence: Sequence;
  /** Number of rows of {@link logits}: 1, the entry's number of tokens, or 0 if none were requested. */
  readonly rows: number;
  readonly #lease: Lease;
  readonly #rows: ResultRows;
  readonly #verification: Verification | undefined;

  private constructor(by: Maker, sequence: Sequence, lease: Lease, rows: ResultRows, vocabSize: number, verification: Verification | undefined) {
    expectMaker(by, "RunResult", "what model.run(…) gives");
    this.sequence = sequence;
    this.rows = (rows.logits?.length ?? 0) / vocabSize;
    this.#lease = lease;
    this.#rows = rows;
    this.#verification = verification;
    Object.freeze(this);
  }

  static {
    makeResult = (sequence, lease, rows, vocabSize, verification) => new RunResult(maker, sequence, lease, rows, vocabSize, verification);
    verificationOf = (result) => result.#verification;
    rowOf = (result, row) => {
      const { logits, rows } = result;
      const width = logits.length / rows;
      return { logits: logits.subarray(row * width, (row + 1) * width), best: result.#rows.best?.[row] };
    };
  }

  /**
   * `[rows, vocabSize]`, row by row. The array is not a copy: the model's next run overwrites its memory.
   * `logits.slice()` keeps the numbers.
   *
   * @throws {GatedDeltaError} of code `state` once the model has run again or was disposed, and if the entry requested no
   *   logits.
   */
  get logits(): Float32Array {
    return this.#read("logits");
  }

  /**
   * `[1 or the entry's tokens, hiddenSize]`: the hidden states after the final norm, in float32, in the same
   * kind of memory as {@link logits}.
   *
   * @throws {GatedDeltaError} of code `state` once the model has run again or was disposed, and if the entry requested no
   *   hidden states.
   */
  get hidden(): Float32Array {
    return this.#read("hidden");
  }

  #read(what: "logits" | "hidden"): Float32Array {
    const op = `result.${what}`;
    const found = this.#rows[what];
    if (found === undefined) throw new GatedDeltaError("state", { op, message: `the batch's entry asked for ${what}: "none"` });
    this.#lease.expectOpen(op);
    return found;
  }
}
