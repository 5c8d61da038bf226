/** The memory of logits. */
import type { Device } from "../device/device.ts";
import { BoundsError } from "../errors.ts";
import { largestTensor } from "./page-pool.ts";
import type { Tensor } from "../tensor/tensor.ts";

/**
 * Logits of up to `kept` rows go to the same memory in every run, as plans need it; more, which whole prompts give, go to
 * memory of their own that lasts as long as the run's results.
 */
export class LogitsMemory implements Disposable {
  readonly #device: Device;
  readonly #vocabSize: number;
  readonly #kept: number;
  readonly #outgrown: () => void;
  #memory: Tensor<"f32"> | undefined;

  /** @param outgrown called before memory that was given out earlier is replaced: plans over it end. */
  constructor(device: Device, vocabSize: number, kept: number, outgrown: () => void) {
    this.#device = device;
    this.#vocabSize = vocabSize;
    this.#kept = kept;
    this.#outgrown = outgrown;
  }

  /** Whether as many rows go to the same memory each time. */
  keeps(rows: number): boolean {
    return rows <= this.#kept;
  }

  /**
   * `[at least rows, vocabulary]`. The caller disposes what is not kept.
   *
   * @throws {BoundsError} for more rows than fit a tensor.
   */
  reserve(op: string, rows: number): Tensor<"f32"> {
    const most = Math.floor(largestTensor / (4 * this.#vocabSize));
    if (rows > most) throw new BoundsError({ op, argument: "batch", expected: `at most ${most} rows of logits`, received: `${rows}` });
    if (!this.keeps(rows)) return this.#device.tensor("f32", [rows, this.#vocabSize]);
    const old = this.#memory;
    if (old !== undefined && old.shape[0]! >= rows) return old;
    const capacity = Math.min(this.#kept, 2 ** Math.ceil(Math.log2(rows)));
    const memory = this.#device.tensor("f32", [capacity, this.#vocabSize]);
    this.#outgrown();
    old?.[Symbol.dispose]();
    return (this.#memory = memory);
  }

  [Symbol.dispose](): void {
    this.#memory?.[Symbol.dispose]();
    this.#memory = undefined;
  }
}
