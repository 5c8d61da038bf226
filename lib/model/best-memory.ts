/** Memory for the largest logits of rows, which the sampler reads instead of whole rows if they are enough. */
import type { Device } from "../device/device.ts";
import { topK } from "../ops/functions.ts";
import type { Op } from "../ops/op.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { mostBest } from "./sampling/best-logits.ts";
import type { BestLogits } from "./sampling/best-logits.ts";

/** The `count` largest logits of each of some rows. */
export interface BestRows {
  /** `[rows, count]`. */
  readonly values: Tensor<"f32">;
  /** `[rows, count]`. */
  readonly ids: Tensor<"id32">;
}

/** Rows of logits, and the memory for the largest of each row. */
export interface WantedBest {
  /** `[rows, vocabulary]`. */
  readonly logits: Tensor;
  readonly rows: BestRows;
}

/** The op that finds the largest logits. */
export function bestOp({ logits, rows }: WantedBest): Op {
  return topK({ x: logits, ...rows });
}

/** The largest logits of each row, valid once the work is done. */
export function bestOf({ values, ids }: BestRows): BestLogits[] {
  const [rows, count] = values.shape as [number, number];
  const [all, columns] = [values.data, ids.data];
  return Array.from({ length: rows }, (_, row) => ({
    values: all.subarray(row * count, (row + 1) * count),
    ids: columns.subarray(row * count, (row + 1) * count),
  }));
}

/** Memory that grows with the rows that are asked for. */
export class BestMemory implements Disposable {
  readonly #device: Device;
  #values: Tensor<"f32"> | undefined;
  #ids: Tensor<"id32"> | undefined;

  constructor(device: Device) {
    this.#device = device;
  }

  /** Makes room for some rows. Results in memory that was too small end. */
  reserve(rows: number): void {
    if ((this.#ids?.shape[0] ?? 0) >= rows) return;
    this[Symbol.dispose]();
    const capacity = 2 ** Math.ceil(Math.log2(rows));
    this.#values = this.#device.tensor("f32", [capacity, mostBest]);
    this.#ids = this.#device.tensor("id32", [capacity, mostBest]);
  }

  /** Memory for `count` logits of each of `rows` rows, in the place of the reserved rows from `first` on. */
  rows(first: number, rows: number, count: number): BestRows {
    const view = { offset: first * mostBest, shape: [rows, count] };
    return { values: this.#values!.view(view), ids: this.#ids!.view(view) };
  }

  [Symbol.dispose](): void {
    this.#values?.[Symbol.dispose]();
    this.#ids?.[Symbol.dispose]();
    this.#values = this.#ids = undefined;
  }
}
