/** Memory between a model's ops: made once, for as many tokens as go through the layers at a time. */
import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { ModelConfig } from "./model-config.ts";

/** The activations of a number of tokens; all are views of the same memory. */
export interface ActivationViews {
  /** `[tokens, hidden]`: the residual stream. */
  readonly hidden: Tensor;
  /** `[tokens, hidden]`: input of a layer's parts, or their output after its norm. */
  readonly normed: Tensor;
  /** `[tokens, hidden]`: output of a layer's parts before its norm; after the layers, rows that were picked out of the others. */
  readonly spare: Tensor;
  /** `[tokens, heads · headDim]`, or `[tokens, heads · 2 · headDim]` with each head's output gate after its query. */
  readonly query: Tensor;
  /** `[tokens, heads, headDim]`: the queries of it. */
  readonly queryHeads: Tensor;
  /** `[tokens, heads, headDim]`: the gates of it, where attention is gated. */
  readonly outputGate: Tensor | undefined;
  /** `[tokens, kvHeads · headDim]`, and the same as heads. */
  readonly key: Tensor;
  readonly keyHeads: Tensor;
  /** `[tokens, kvHeads · headDim]`, and the same as heads. */
  readonly value: Tensor;
  readonly valueHeads: Tensor;
  /** `[tokens, heads · headDim]`, and the same as heads: the output of attention. */
  readonly attended: Tensor;
  readonly attendedHeads: Tensor;
  /** `[tokens, intermediate]`: the MLP's gate, then its product with `up`. */
  readonly gate: Tensor;
  /** `[tokens, intermediate]`. */
  readonly up: Tensor;
}

/** How many sets of views are kept: prompts' lengths rarely repeat, a batch's number of sequences often does. */
const mostViews = 8;

type Part = "hidden" | "normed" | "spare" | "query" | "key" | "value" | "attended" | "gate" | "up";

export class Activations implements Disposable {
  readonly #config: ModelConfig;
  readonly #memory: Readonly<Record<Part, Tensor>>;
  readonly #views = new Map<number, ActivationViews>();

  /** @param tokens how many there can be. */
  constructor(device: Device, config: ModelConfig, dtype: FloatDType, tokens: number) {
    const { hiddenSize, intermediateSize, layers, attention } = config;
    // A model without attention layers has no use for their memory.
    const { heads, kvHeads, headDim, gated } = layers.includes("attention") ? attention : { heads: 0, kvHeads: 0, headDim: 0, gated: false };
    const made: Tensor[] = [];
    const make = (width: number): Tensor => {
      const tensor: Tensor = device.tensor(dtype, [tokens, width]);
      made.push(tensor);
      return tensor;
    };
    this.#config = config;
    try {
      this.#memory = {
        hidden: make(hiddenSize),
        normed: make(hiddenSize),
        spare: make(hiddenSize),
        query: make((gated ? 2 : 1) * heads * headDim),
        key: make(kvHeads * headDim),
        value: make(kvHeads * headDim),
        attended: make(heads * headDim),
        gate: make(intermediateSize),
        up: make(intermediateSize),
      };
    } catch (error) {
      for (const tensor of made) tensor[Symbol.dispose]();
      throw error;
    }
  }

  /** Views of the first `tokens` rows. */
  views(tokens: number): ActivationViews {
    const known = this.#views.get(tokens);
    if (known !== undefined) return known;
    const made = this.#makeViews(tokens);
    const [oldest] = this.#views.keys();
    if (this.#views.size >= mostViews && oldest !== undefined) this.#views.delete(oldest);
    this.#views.set(tokens, made);
    return made;
  }

  /** Frees the memory as soon as no pending work needs it. */
  [Symbol.dispose](): void {
    for (const tensor of Object.values(this.#memory)) tensor[Symbol.dispose]();
  }

  #makeViews(tokens: number): ActivationViews {
    const rows = (part: Part): Tensor => this.#memory[part].slice(0, tokens);
    const { heads, kvHeads, headDim, gated } = this.#config.attention;
    const [query, key, value, attended] = [rows("query"), rows("key"), rows("value"), rows("attended")];
    const has = this.#config.layers.includes("attention");
    const asHeads = (tensor: Tensor, count: number): Tensor => (has ? tensor.reshape([tokens, count, headDim]) : tensor);
    // A head's query and output gate lie side by side.
    const half = (offset: number): Tensor => query.view({ offset, shape: [tokens, heads, headDim], strides: [2 * heads * headDim, 2 * headDim, 1] });
    const split = has && gated;
    return {
      hidden: rows("hidden"),
      normed: rows("normed"),
      spare: rows("spare"),
      query,
      queryHeads: split ? half(0) : asHeads(query, heads),
      outputGate: split ? half(headDim) : undefined,
      key,
      keyHeads: asHeads(key, kvHeads),
      value,
      valueHeads: asHeads(value, kvHeads),
      attended,
      attendedHeads: asHeads(attended, heads),
      gate: rows("gate"),
      up: rows("up"),
    };
  }
}
