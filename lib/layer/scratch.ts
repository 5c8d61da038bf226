/** The memory between a layer's ops: allocated once a device, grown when a larger batch comes, reused by every call. */

import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { convChannels, gateChannels, valueChannels, type LayerConfig } from "../checkpoint/mixer-config.ts";

/** Tensors for a number of tokens; all are views of the same memory, so only one batch can use them at a time. */
export interface ScratchViews {
  /** `[tokens, conv channels]`: what the projection gives the convolution. */
  readonly qkv: Tensor;
  /** `[tokens, conv channels]`: what the convolution gives; the next three are views of it. */
  readonly conv: Tensor;
  /** `[tokens, key heads, key dim]`. */
  readonly query: Tensor;
  /** `[tokens, key heads, key dim]`. */
  readonly key: Tensor;
  /** `[tokens, value heads, value dim]`. */
  readonly value: Tensor;
  /** `[tokens, value channels]`. */
  readonly z: Tensor;
  /** `[tokens, value heads]`, or `[tokens, value heads · key dim]`, f32: gates are worth the precision and cost little. */
  readonly a: Tensor;
  /** `[tokens, value heads]`, f32. */
  readonly b: Tensor;
  /** `[tokens, rank]`, f32: the first product of a's projection where it has two. */
  readonly aDown: Tensor | undefined;
  /** `[tokens, rank]`: the first product of z's projection where it has two. */
  readonly zDown: Tensor | undefined;
  /** `[tokens, value heads, value dim]`, f32: the delta rule's output is not rounded before the norm. */
  readonly delta: Tensor;
  /** `[tokens, value channels]`. */
  readonly normed: Tensor;
}

/** Rows of every tensor, and how their memory is laid out for `capacity` tokens. */
interface Memory {
  readonly capacity: number;
  readonly qkv: Tensor;
  readonly conv: Tensor;
  readonly z: Tensor;
  readonly a: Tensor;
  readonly b: Tensor;
  readonly aDown?: Tensor;
  readonly zDown?: Tensor;
  readonly delta: Tensor;
  readonly normed: Tensor;
}

/** What the sizes of scratch memory follow from. */
export interface ScratchShape {
  readonly config: LayerConfig;
  /** Dtype of the activations. */
  readonly dtype: FloatDType;
  /** Rank of a's projection where it has a low one. */
  readonly aRank: number | undefined;
  /** Rank of z's projection where it has a low one. */
  readonly zRank: number | undefined;
}

/** How many sets of views are kept: prompts' lengths rarely repeat, a batch's number of sequences often does. */
const mostViews = 16;

/** Above every row that a view can begin with. */
const mostRows = 2 ** 26;

/** The scratch memory of a device's layers of one shape, by that shape. */
const shared = new WeakMap<Device, Map<string, Scratch>>();

/**
 * Scratch memory for one more layer: layers of a device that have the same sizes share it, since their ops run one after
 * the other. Dispose it once for each time that it was taken.
 */
export function takeScratch(device: Device, shape: ScratchShape): Scratch {
  let ofDevice = shared.get(device);
  if (ofDevice === undefined) shared.set(device, (ofDevice = new Map()));
  const { config: { keyHeads, valueHeads, keyDim, valueDim, gateDims }, dtype, aRank, zRank } = shape;
  const key = [keyHeads, valueHeads, keyDim, valueDim, gateDims, dtype, aRank, zRank].join();
  let scratch = ofDevice.get(key);
  if (scratch === undefined) {
    const made = new Scratch(device, shape, () => void (ofDevice.get(key) === made && ofDevice.delete(key)));
    ofDevice.set(key, (scratch = made));
  }
  scratch.take();
  return scratch;
}

/** The scratch memory of layers of one shape. */
export class Scratch implements Disposable {
  readonly #device: Device;
  readonly #shape: ScratchShape;
  readonly #views = new Map<number, ScratchViews>();
  /** Outgrown memory. Ops and plans made before still refer to it; growth by halves keeps the sum small. */
  readonly #retired: Memory[] = [];
  readonly #ended: () => void;
  #memory: Memory | undefined;
  /** Layers that use it. */
  #users = 0;

  /** @param ended called when the last layer has let go of it. */
  constructor(device: Device, shape: ScratchShape, ended: () => void) {
    this.#ended = ended;
    this.#device = device;
    this.#shape = shape;
  }

  /** Views of the rows from `start` up to, not including, `end`. */
  views(end: number, start = 0): ScratchViews {
    const key = start * mostRows + end;
    const known = this.#views.get(key);
    if (known) return known;
    const made = this.#makeViews(this.#reserve(end), start, end);
    const [oldest] = this.#views.keys();
    if (this.#views.size >= mostViews && oldest !== undefined) this.#views.delete(oldest);
    this.#views.set(key, made);
    return made;
  }

  /** One more layer uses it. */
  take(): void {
    this.#users++;
  }

  /** One layer no longer uses it; with the last one the memory is freed. */
  [Symbol.dispose](): void {
    if (--this.#users > 0) return;
    this.#ended();
    for (const memory of [...this.#retired, ...(this.#memory ? [this.#memory] : [])]) disposeMemory(memory);
    this.#retired.length = 0;
    this.#views.clear();
    this.#memory = undefined;
  }

  #reserve(tokens: number): Memory {
    const old = this.#memory;
    if (old && old.capacity >= tokens) return old;
    const memory = this.#allocate(Math.max(1, tokens, Math.ceil(1.5 * (old?.capacity ?? 0))));
    if (old) this.#retired.push(old);
    this.#views.clear();
    this.#memory = memory;
    return memory;
  }

  #allocate(capacity: number): Memory {
    const { config, dtype, aRank, zRank } = this.#shape;
    const channels = convChannels(config);
    const values = valueChannels(config);
    const { valueHeads, valueDim } = config;
    const made: Tensor[] = [];
    const make = (kind: FloatDType, ...row: number[]): Tensor => {
      const tensor = this.#device.tensor(kind, [capacity, ...row]) as Tensor;
      made.push(tensor);
      return tensor;
    };
    try {
      return {
        capacity,
        qkv: make(dtype, channels),
        conv: make(dtype, channels),
        z: make(dtype, values),
        a: make("f32", gateChannels(config)),
        b: make("f32", valueHeads),
        ...(aRank !== undefined && { aDown: make("f32", aRank) }),
        ...(zRank !== undefined && { zDown: make(dtype, zRank) }),
        delta: make("f32", valueHeads, valueDim),
        normed: make(dtype, values),
      };
    } catch (error) {
      for (const tensor of made) tensor[Symbol.dispose]();
      throw error;
    }
  }

  #makeViews(memory: Memory, start: number, end: number): ScratchViews {
    const { config } = this.#shape;
    const { keyHeads, valueHeads, keyDim, valueDim } = config;
    const channels = convChannels(config);
    const tokens = end - start;
    const first = start * channels;
    const keys = { shape: [tokens, keyHeads, keyDim], strides: [channels, keyDim, 1] };
    const values = { shape: [tokens, valueHeads, valueDim], strides: [channels, valueDim, 1] };
    return {
      qkv: memory.qkv.slice(start, end),
      conv: memory.conv.slice(start, end),
      query: memory.conv.view({ offset: first, ...keys }),
      key: memory.conv.view({ offset: first + keyHeads * keyDim, ...keys }),
      value: memory.conv.view({ offset: first + 2 * keyHeads * keyDim, ...values }),
      z: memory.z.slice(start, end),
      a: memory.a.slice(start, end),
      b: memory.b.slice(start, end),
      aDown: memory.aDown?.slice(start, end),
      zDown: memory.zDown?.slice(start, end),
      delta: memory.delta.slice(start, end),
      normed: memory.normed.slice(start, end),
    };
  }
}

function disposeMemory({ capacity: _, ...tensors }: Memory): void {
  for (const tensor of Object.values(tensors)) tensor[Symbol.dispose]();
}
