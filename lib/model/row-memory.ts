/** The memory of what runs give: logits and hidden states. */
import type { Device } from "../device/device.ts";
import { BoundsError } from "../errors.ts";
import { largestBytes } from "../tensor/shape.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** Sizes of {@link RowMemory}. */
export interface RowMemoryOptions {
  /** What the rows are, for errors. */
  readonly what: string;
  /** Numbers of a row. */
  readonly width: number;
  /** How many rows go to the same memory in every run. */
  readonly kept: number;
  /** Called before memory that was given out earlier is replaced: plans over it end. */
  readonly outgrown?: (() => void) | undefined;
}

/**
 * Up to `kept` rows go to the same memory in every run, as plans need it; more, which whole prompts give, go to memory of
 * their own that lasts as long as the run's results.
 */
export class RowMemory implements Disposable {
  readonly #device: Device;
  readonly #options: RowMemoryOptions;
  #memory: Tensor<"f32"> | undefined;

  constructor(device: Device, options: RowMemoryOptions) {
    this.#device = device;
    this.#options = options;
  }

  /** Whether as many rows go to the same memory each time. */
  keeps(rows: number): boolean {
    return rows <= this.#options.kept;
  }

  /**
   * `[at least rows, width]`. The caller disposes what is not kept.
   *
   * @throws {BoundsError} for more rows than fit a tensor.
   */
  reserve(op: string, rows: number): Tensor<"f32"> {
    const { what, width, kept, outgrown } = this.#options;
    const most = Math.floor(largestBytes / (4 * width));
    if (rows > most) throw new BoundsError({ op, argument: "batch", expected: `at most ${most} rows of ${what}`, received: `${rows}` });
    if (!this.keeps(rows)) return this.#device.tensor("f32", [rows, width]);
    const old = this.#memory;
    if (old !== undefined && old.shape[0]! >= rows) return old;
    const capacity = Math.min(kept, 2 ** Math.ceil(Math.log2(rows)));
    const memory = this.#device.tensor("f32", [capacity, width]);
    outgrown?.();
    old?.[Symbol.dispose]();
    return (this.#memory = memory);
  }

  [Symbol.dispose](): void {
    this.#memory?.[Symbol.dispose]();
    this.#memory = undefined;
  }
}
