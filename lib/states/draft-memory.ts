/**
 * Memory for the records of drafts, allocated once for a number of tokens and shared by all open drafts. The rows of a draft
 * are consecutive, and so are the rows of all drafts that one pass verifies.
 */
import type { DeltaRecords } from "../ops/recurrence-arguments.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { StatePool } from "./state-pool.ts";

/** Sizes of {@link DraftMemory}. */
export interface DraftMemoryOptions {
  /** The most tokens that all open drafts can have together. */
  readonly rows: number;
  /** The activation dtype, which is the dtype of the convolution's input. */
  readonly dtype: FloatDType;
  /** Whether the gates are per key dimension. */
  readonly perKey: boolean;
}

/** One layer's memory for `rows` tokens: the convolution's input and the recurrence's records. */
interface LayerMemory extends DeltaRecords {
  readonly convInput: Tensor | undefined;
}

export class DraftMemory implements Disposable {
  readonly #layers: readonly LayerMemory[];
  /** For each row, whether an open draft has it. */
  readonly #taken: boolean[];

  constructor(pool: StatePool, { rows, dtype, perKey }: DraftMemoryOptions) {
    const { device, shape } = pool;
    const { keyHeads, valueHeads, keyDim, valueDim, conv, convChannels } = shape;
    const made: Tensor[] = [];
    const make = (kind: FloatDType, ...row: number[]): Tensor => {
      const tensor: Tensor = device.tensor(kind, [rows, ...row]);
      made.push(tensor);
      return tensor;
    };
    this.#taken = Array<boolean>(rows).fill(false);
    try {
      this.#layers = Array.from({ length: rows > 0 ? shape.layers : 0 }, () => ({
        convInput: conv ? make(dtype, convChannels) : undefined,
        key: make("f32", keyHeads, keyDim),
        delta: make("f32", valueHeads, valueDim),
        decay: make("f32", valueHeads, ...(perKey ? [keyDim] : [])),
      }));
    } catch (error) {
      for (const tensor of made) tensor[Symbol.dispose]();
      throw error;
    }
  }

  /** Number of rows. */
  get capacity(): number {
    return this.#taken.length;
  }

  /** Number of rows that {@link take} can give: the length of the longest free range. */
  get free(): number {
    let longest = 0;
    let length = 0;
    for (const taken of this.#taken) {
      length = taken ? 0 : length + 1;
      if (length > longest) longest = length;
    }
    return longest;
  }

  /**
   * Takes a range of rows, cut into pieces of `counts[i]` rows that are given back one by one. At least as many must be
   * {@link free}.
   */
  take(counts: readonly number[]): { readonly all: DraftRows; readonly pieces: readonly DraftRows[] } {
    const length = counts.reduce((sum, count) => sum + count, 0);
    const first = this.#find(length);
    this.#taken.fill(true, first, first + length);
    let at = first;
    const piece = (start: number, end: number): DraftRows =>
      new DraftRows(this.#layers, start, end, () => void this.#taken.fill(false, start, end));
    const pieces = counts.map((count) => piece(at, (at += count)));
    return { all: piece(first, first + length), pieces };
  }

  #find(length: number): number {
    for (let first = 0, end = 0; end < this.#taken.length; end++) {
      if (this.#taken[end]) first = end + 1;
      else if (end + 1 - first === length) return first;
    }
    throw new RangeError(`fewer than ${length} of ${this.#taken.length} consecutive rows are free`);
  }

  /** Frees the memory when no pending work needs it. */
  [Symbol.dispose](): void {
    for (const { convInput, key, delta, decay } of this.#layers) {
      for (const tensor of [convInput, key, delta, decay]) tensor?.[Symbol.dispose]();
    }
  }
}

/** Rows of a {@link DraftMemory}. */
export class DraftRows {
  readonly #layers: readonly LayerMemory[];
  readonly #start: number;
  readonly #end: number;
  #giveBack: (() => void) | undefined;

  constructor(layers: readonly LayerMemory[], start: number, end: number, giveBack: () => void) {
    this.#layers = layers;
    this.#start = start;
    this.#end = end;
    this.#giveBack = giveBack;
  }

  /** `[rows, convChannels]`: the convolution's input in a layer; undefined in a pool without convolution states. */
  convInput(layer: number): Tensor | undefined {
    return this.#layers[layer]!.convInput?.slice(this.#start, this.#end);
  }

  /** The recurrence's records in a layer. Frozen, so that the commit reads the same tensors. */
  records(layer: number): DeltaRecords {
    const { key, delta, decay } = this.#layers[layer]!;
    const rows = (tensor: Tensor): Tensor => tensor.slice(this.#start, this.#end);
    return Object.freeze({ key: rows(key), delta: rows(delta), decay: rows(decay) });
  }

  /** Gives the rows back, once. Committed work may still use them: work on a device runs in order. */
  release(): void {
    this.#giveBack?.();
    this.#giveBack = undefined;
  }
}
