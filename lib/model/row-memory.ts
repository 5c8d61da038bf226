/** The memory for the results of runs: logits and hidden states. */
import type { Device } from "../device/device.ts";
import { BoundsError } from "../errors.ts";
import { largestBytes } from "../tensor/shape.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** Sizes of {@link RowMemory}. */
export interface RowMemoryOptions {
  /** A noun for the contents, for errors. */
  readonly what: string;
  /** Length of a row. */
  readonly width: number;
  /** Number of rows in memory that all runs share. */
  readonly kept: number;
  /** Called before the shared memory is replaced, which ends plans that use it. */
  readonly onReplace?: (() => void) | undefined;
}

/**
 * Up to `kept` rows are in the same memory in every run, because plans need that. Larger results, such as those of whole prompts,
 * get separate memory, which lasts as long as the run's results.
 */
export class RowMemory implements Disposable {
  readonly #device: Device;
  readonly #options: RowMemoryOptions;
  #memory: Tensor<"f32"> | undefined;

  constructor(device: Device, options: RowMemoryOptions) {
    this.#device = device;
    this.#options = options;
  }

  /** Whether this number of rows is in the shared memory. */
  keeps(rows: number): boolean {
    return rows <= this.#options.kept;
  }

  /**
   * `[at least rows, width]`. The caller disposes memory that is not kept.
   *
   * @throws {BoundsError} for more rows than fit a tensor.
   */
  reserve(op: string, rows: number): Tensor<"f32"> {
    const { what, width, kept, onReplace } = this.#options;
    const most = Math.floor(largestBytes / (4 * width));
    if (rows > most) throw new BoundsError({ op, argument: "batch", expected: `at most ${most} rows of ${what}`, received: `${rows}` });
    if (!this.keeps(rows)) return this.#device.tensor("f32", [rows, width]);
    const old = this.#memory;
    if (old !== undefined && old.shape[0]! >= rows) return old;
    const capacity = Math.min(kept, 2 ** Math.ceil(Math.log2(rows)));
    const memory = this.#device.tensor("f32", [capacity, width]);
    onReplace?.();
    old?.[Symbol.dispose]();
    return (this.#memory = memory);
  }

  [Symbol.dispose](): void {
    this.#memory?.[Symbol.dispose]();
    this.#memory = undefined;
  }
}
