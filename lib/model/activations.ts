/** Memory for what lies between a model's ops: made once, for as many tokens as go through the layers at a time. */
import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { ModelConfig } from "./model-config.ts";

/** The activations of a number of tokens; all are views of the same memory. */
export interface ActivationViews {
  /** `[tokens, hidden]`: the residual stream. */
  readonly hidden: Tensor;
  /** `[tokens, hidden]`: what a layer's parts read. */
  readonly normed: Tensor;
  /** `[tokens, hidden]`: rows that were picked out of the others. */
  readonly picked: Tensor;
  /** `[tokens, heads · 2 · headDim]`: each head's query, then its output gate; the next two are views of it. */
  readonly queryGate: Tensor;
  /** `[tokens, heads, headDim]`. */
  readonly query: Tensor;
  /** `[tokens, heads, headDim]`. */
  readonly outputGate: Tensor;
  /** `[tokens, kvHeads · headDim]`, and the same as heads. */
  readonly key: Tensor;
  readonly keyHeads: Tensor;
  /** `[tokens, kvHeads · headDim]`, and the same as heads. */
  readonly value: Tensor;
  readonly valueHeads: Tensor;
  /** `[tokens, heads · headDim]`, and the same as heads: what attention gives. */
  readonly attended: Tensor;
  readonly attendedHeads: Tensor;
  /** `[tokens, intermediate]`: the MLP's gate, then its product with `up`. */
  readonly gate: Tensor;
  /** `[tokens, intermediate]`. */
  readonly up: Tensor;
}

/** How many sets of views are kept: prompts' lengths rarely repeat, a batch's number of sequences often does. */
const mostViews = 8;

type Part = "hidden" | "normed" | "picked" | "queryGate" | "key" | "value" | "attended" | "gate" | "up";

export class Activations implements Disposable {
  readonly #config: ModelConfig;
  readonly #memory: Readonly<Record<Part, Tensor>>;
  readonly #views = new Map<number, ActivationViews>();

  /** @param tokens how many there can be. */
  constructor(device: Device, config: ModelConfig, dtype: FloatDType, tokens: number) {
    const { hiddenSize, intermediateSize, layers, attention } = config;
    // A model without attention layers has no use for their memory.
    const { heads, kvHeads, headDim } = layers.includes("attention") ? attention : { heads: 0, kvHeads: 0, headDim: 0 };
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
        picked: make(hiddenSize),
        queryGate: make(2 * heads * headDim),
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
    const { heads, kvHeads, headDim } = this.#config.attention;
    const [queryGate, key, value, attended] = [rows("queryGate"), rows("key"), rows("value"), rows("attended")];
    const has = this.#config.layers.includes("attention");
    const asHeads = (tensor: Tensor, count: number): Tensor => (has ? tensor.reshape([tokens, count, headDim]) : tensor);
    // A head's query and output gate lie side by side.
    const part = (offset: number): Tensor =>
      has ? queryGate.view({ offset, shape: [tokens, heads, headDim], strides: [2 * heads * headDim, 2 * headDim, 1] }) : queryGate;
    return {
      hidden: rows("hidden"),
      normed: rows("normed"),
      picked: rows("picked"),
      queryGate,
      query: part(0),
      outputGate: part(headDim),
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
