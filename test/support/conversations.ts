/**
 * Conversations over paged keys and values: tests of attention feed their tokens to the op, split into any calls, in any
 * batch, over pages of any size and place.
 */
import { attention } from "../../lib/index.ts";
import type { AttentionArguments, Device, FloatDType, Op, Tensor } from "../../lib/index.ts";
import { attend, prepared } from "../reference/attention.ts";
import { reference, rows } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { Random } from "./random.ts";

/** An attention layer's options, and the storage of its tensors. */
export interface Layer {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly rotaryDim: number;
  readonly ropeTheta: number;
  readonly normEps: number;
  readonly weightForm: NonNullable<AttentionArguments["weightForm"]>;
  readonly scale?: number | undefined;
  readonly products?: AttentionArguments["products"];
  /** Norms of queries and keys. */
  readonly norms: boolean;
  /** A gate, interleaved with the query head by head as Qwen3.5's projection leaves them. */
  readonly gated: boolean;
  readonly dtype: FloatDType;
  readonly outDtype: FloatDType;
  readonly pageDtype: FloatDType;
  readonly normDtype: FloatDType;
}

/** A layer with every feature, for variations. */
export const plainLayer: Layer = {
  heads: 4, kvHeads: 2, headDim: 64, rotaryDim: 16, ropeTheta: 10000, normEps: 1e-6, weightForm: "one-plus-weight",
  norms: true, gated: true, dtype: "f32", outDtype: "f32", pageDtype: "f32", normDtype: "f32",
};

/** The projections of one conversation's tokens. */
export interface Tokens {
  readonly count: number;
  /** `[count, heads, 2, headDim]`, query then gate; the tensors below are in the layer's dtype. */
  readonly projected: Float32Array<ArrayBuffer>;
  readonly key: Float32Array<ArrayBuffer>;
  readonly value: Float32Array<ArrayBuffer>;
}

/** Random tokens, whose numbers a tensor of the layer's dtype holds exactly. */
export function randomTokens(device: Device, layer: Layer, count: number, random: Random, size = 1): Tokens {
  const filled = (length: number) => {
    using tensor = device.tensor(layer.dtype, [length]);
    return tensor.copyFrom(Float32Array.from({ length }, () => size * random.normal())).toFloat32();
  };
  const { heads, kvHeads, headDim } = layer;
  return { count, projected: filled(count * heads * 2 * headDim), key: filled(count * kvHeads * headDim), value: filled(count * kvHeads * headDim) };
}

/** One conversation on its way through an {@link Attention}. */
export interface Conversation {
  readonly tokens: Tokens;
  /** The pages that it has, in order. */
  table: number[];
  done: number;
  /** `[tokens, heads, headDim]` of the finished tokens. */
  readonly out: Float32Array;
}

/** A layer's pages, and the calls that extend them. */
export class Attention implements Disposable {
  readonly keyPages: Tensor;
  readonly valuePages: Tensor;
  readonly queryNorm: Tensor | undefined;
  readonly keyNorm: Tensor | undefined;
  readonly #free: number[];

  constructor(
    readonly device: Device,
    readonly layer: Layer,
    readonly pageTokens: number,
    pages: number,
    random: Random,
  ) {
    const shape = [pages, layer.kvHeads, pageTokens, layer.headDim];
    this.keyPages = device.tensor(layer.pageDtype, shape);
    this.valuePages = device.tensor(layer.pageDtype, shape);
    // Only elements that were stored may be read.
    for (const tensor of [this.keyPages, this.valuePages]) tensor.copyFrom(new Float32Array(tensor.size).fill(NaN));
    const weights = new Random(7); // the same for every instance of a layer
    const norm = () =>
      device.tensor(layer.normDtype, [layer.headDim]).copyFrom(Float32Array.from({ length: layer.headDim }, () => 0.3 * weights.normal()));
    if (layer.norms) [this.queryNorm, this.keyNorm] = [norm(), norm()];
    this.#free = random.distinct(pages, pages);
  }

  start(tokens: Tokens): Conversation {
    const { heads, headDim } = this.layer;
    return { tokens, table: [], done: 0, out: new Float32Array(tokens.count * heads * headDim) };
  }

  /** A conversation that is the same up to here and continues with other tokens: full pages are shared, a partial last one is copied. */
  forkPages(from: Conversation): { readonly table: number[]; readonly copied: readonly [number, number] | undefined } {
    const table = [...from.table];
    if (from.done % this.pageTokens === 0) return { table, copied: undefined };
    const page = this.#take();
    const copied = [table.at(-1)!, page] as const;
    table[table.length - 1] = page;
    return { table, copied };
  }

  #take(): number {
    const page = this.#free.pop();
    if (page === undefined) throw new Error("no free page left in the test");
    return page;
  }

  /** Gives conversations the pages for `count` more tokens each. */
  reserve(batch: readonly (readonly [Conversation, number])[]): void {
    for (const [one, count] of batch) {
      while (one.table.length * this.pageTokens < one.done + count) one.table.push(this.#take());
    }
  }

  /** Runs the next `count` tokens of each conversation through one op. `behind` rows belong to no sequence. */
  run(batch: readonly (readonly [Conversation, number])[], { behind = 0, wrap = (op: Op): unknown => this.device.run(op) } = {}): void {
    const { device, layer } = this;
    const { heads, kvHeads, headDim, dtype } = layer;
    this.reserve(batch);
    const total = batch.reduce((sum, [, count]) => sum + count, behind);
    const gather = (width: number, of: (tokens: Tokens) => Float32Array) => {
      const data = new Float32Array(total * width).fill(NaN);
      let row = 0;
      for (const [one, count] of batch) {
        data.set(of(one.tokens).subarray(one.done * width, (one.done + count) * width), row * width);
        row += count;
      }
      return device.tensor(dtype, [total * width]).copyFrom(data);
    };
    const projected = gather(heads * 2 * headDim, (tokens) => tokens.projected);
    const half = (offset: number) =>
      projected.view({ offset, shape: [total, heads, headDim], strides: [heads * 2 * headDim, 2 * headDim, 1] });
    const key = gather(kvHeads * headDim, (tokens) => tokens.key);
    const value = gather(kvHeads * headDim, (tokens) => tokens.value);
    const out = device.tensor(layer.outDtype, [total, heads, headDim]);
    const width = Math.max(1, ...batch.map(([one]) => one.table.length));
    wrap(
      attention({
        query: half(0), key: key.reshape([total, kvHeads, headDim]), value: value.reshape([total, kvHeads, headDim]),
        gate: layer.gated ? half(headDim) : undefined,
        queryNorm: this.queryNorm, keyNorm: this.keyNorm, keyPages: this.keyPages, valuePages: this.valuePages, out,
        cuSeqlens: batch.reduce((starts, [, count]) => [...starts, starts.at(-1)! + count], [0]),
        pageTable: batch.flatMap(([one]) => Array.from({ length: width }, (_, i) => one.table[i] ?? -7)),
        pastTokens: batch.map(([one]) => one.done),
        rotaryDim: layer.rotaryDim, ropeTheta: layer.ropeTheta, normEps: layer.normEps, weightForm: layer.weightForm, products: layer.products,
        scale: layer.scale,
      }),
    );
    device.wait();
    const rowsOut = out.toFloat32();
    let row = 0;
    for (const [one, count] of batch) {
      const size = heads * headDim;
      one.out.set(rowsOut.subarray(row * size, (row + count) * size), one.done * size);
      one.done += count;
      row += count;
    }
    for (const tensor of [projected, key, value, out]) tensor[Symbol.dispose]();
  }

  /** All of a conversation in calls of the given lengths. */
  whole(tokens: Tokens, cuts: readonly number[] = [tokens.count]): Conversation {
    const one = this.start(tokens);
    for (const count of cuts) this.run([[one, count]]);
    return one;
  }

  /** A conversation's part of the pages, `[tokens, kvHeads, headDim]`. */
  stored(one: Conversation, pages: Tensor): Float32Array<ArrayBuffer> {
    const { kvHeads, headDim } = this.layer;
    const all = pages.toFloat32();
    const found = new Float32Array(one.done * kvHeads * headDim);
    for (let t = 0; t < one.done; t++) {
      for (let h = 0; h < kvHeads; h++) {
        const at = ((one.table[Math.floor(t / this.pageTokens)]! * kvHeads + h) * this.pageTokens + (t % this.pageTokens)) * headDim;
        found.set(all.subarray(at, at + headDim), (t * kvHeads + h) * headDim);
      }
    }
    return found;
  }

  [Symbol.dispose](): void {
    for (const tensor of [this.keyPages, this.valuePages, this.queryNorm, this.keyNorm]) tensor?.[Symbol.dispose]();
  }
}

/** A conversation computed by the definition: the keys before they are stored, and the output over given pages. */
export function expected(
  op: Attention, tokens: Tokens, from = 0,
): { readonly key: Reference; out(keys: ArrayLike<number>, values: ArrayLike<number>): Reference } {
  const { layer } = op;
  const { heads, kvHeads, headDim } = layer;
  const norm = (tensor: Tensor | undefined) => (tensor === undefined ? undefined : reference(tensor.shape, tensor.toFloat32()));
  const positions = Array.from({ length: tokens.count }, (_, t) => t);
  const part = (which: number) => {
    const found = reference([tokens.count, heads, headDim]);
    for (let row = 0; row < tokens.count * heads; row++) {
      found.data.set(tokens.projected.subarray((row * 2 + which) * headDim, (row * 2 + which + 1) * headDim), row * headDim);
    }
    return found;
  };
  const shape = [tokens.count, kvHeads, headDim];
  const query = rows(prepared(part(0), norm(op.queryNorm), positions, layer), from, tokens.count);
  return {
    key: prepared(reference(shape, tokens.key), norm(op.keyNorm), positions, layer),
    out: (keys, values) =>
      attend(
        query, reference(shape, keys), reference(shape, values), from, layer.scale ?? headDim ** -0.5,
        layer.gated ? rows(part(1), from, tokens.count) : undefined,
      ),
  };
}
