/**
 * The memory of a model's keys and values: for each attention layer two tensors `[pages, kvHeads, pageTokens, headDim]`,
 * page by page, and the ledger of their pages. A page has the same number in all tensors.
 */
import type { Device } from "../device/device.ts";
import { ShapeError } from "../errors.ts";
import { copySlots } from "../ops/copy-slots.ts";
import type { Op } from "../ops/op.ts";
import { dtypes } from "../tensor/dtype.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { largestBytes } from "../tensor/shape.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { PageLedger } from "./page-ledger.ts";
import type { PageCopy } from "./page-ledger.ts";

/** Sizes and dtype of a {@link PagePool}. */
export interface PagePoolOptions {
  /** Number of the model's attention layers. */
  readonly layers: number;
  /** Number of pages in each layer. */
  readonly count: number;
  /** Number of tokens of a page. */
  readonly tokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly dtype: FloatDType;
}

/** The keys and values of one attention layer. */
export interface LayerPages {
  readonly keys: Tensor;
  readonly values: Tensor;
}

export class PagePool implements Disposable {
  readonly ledger: PageLedger;
  /** One for each attention layer, in order. */
  readonly layers: readonly LayerPages[];
  /** Bytes of one page in all layers. */
  readonly pageBytes: number;

  /** @throws {ShapeError} if one layer's keys would be longer than a tensor can be. */
  constructor(op: string, device: Device, { layers, count, tokens, kvHeads, headDim, dtype }: PagePoolOptions) {
    const bytes = kvHeads * tokens * headDim * dtypes[dtype].bytes;
    const most = Math.floor(largestBytes / bytes);
    if (layers > 0 && count > most) {
      const expected = `at most ${most}, so that the keys of one layer fit in a tensor`;
      throw new ShapeError({ op, argument: "pages.count", expected, received: `${count}` });
    }
    this.pageBytes = 2 * layers * bytes;
    this.ledger = new PageLedger(count, tokens);
    const made: Tensor[] = [];
    const make = (): Tensor => {
      const tensor: Tensor = device.tensor(dtype, [count, kvHeads, tokens, headDim]);
      made.push(tensor);
      return tensor;
    };
    try {
      this.layers = Array.from({ length: layers }, () => ({ keys: make(), values: make() }));
    } catch (error) {
      for (const tensor of made) tensor[Symbol.dispose]();
      throw error;
    }
  }

  /** The ops that copy pages in all layers. */
  copies(copies: readonly PageCopy[]): Op[] {
    if (copies.length === 0) return [];
    const readSlots = Int32Array.from(copies, ({ from }) => from);
    const writeSlots = Int32Array.from(copies, ({ to }) => to);
    const tensors = this.layers.flatMap(({ keys, values }) => [keys, values]);
    return tensors.map((pool) => copySlots({ pool, readSlots, writeSlots }));
  }

  /** Frees the memory as soon as no pending work needs it. */
  [Symbol.dispose](): void {
    for (const { keys, values } of this.layers) {
      keys[Symbol.dispose]();
      values[Symbol.dispose]();
    }
  }
}
