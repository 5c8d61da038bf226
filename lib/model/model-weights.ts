/** The tensors of a whole model on a device. */

import type { GatedDeltaNet } from "../layer/gated-delta-net.ts";
import type { Matrix } from "../checkpoint/matrix.ts";
import type { WeightForm } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** What every layer has around its mixing of tokens. */
export interface LayerFrame {
  /** `[hidden]`: norm before the mixing (`input_layernorm`). */
  readonly inputNorm: Tensor;
  /** `[hidden]`: norm before the MLP (`post_attention_layernorm`). */
  readonly postNorm: Tensor;
  /** `[intermediate, hidden]`. */
  readonly gate: Matrix;
  /** `[intermediate, hidden]`. */
  readonly up: Matrix;
  /** `[hidden, intermediate]`. */
  readonly down: Matrix;
}

/** The weights of an attention layer. */
export interface AttentionWeights {
  /** `[heads · 2 · headDim, hidden]`: each head's query, then its output gate. */
  readonly query: Matrix;
  /** `[kvHeads · headDim, hidden]`. */
  readonly key: Matrix;
  /** `[kvHeads · headDim, hidden]`. */
  readonly value: Matrix;
  /** `[hidden, heads · headDim]`. */
  readonly output: Matrix;
  /** `[headDim]`, in the model's {@link ModelWeights.normForm}. */
  readonly queryNorm: Tensor;
  /** `[headDim]`, in the model's {@link ModelWeights.normForm}. */
  readonly keyNorm: Tensor;
}

/** A Gated DeltaNet layer. The k-th of a model has `poolLayer` k. */
export interface GatedDeltaLayer extends LayerFrame {
  readonly mixer: GatedDeltaNet;
  readonly attention?: undefined;
}

/** An attention layer. */
export interface AttentionLayer extends LayerFrame {
  readonly attention: AttentionWeights;
  readonly mixer?: undefined;
}

/** The tensors of a whole model. Disposing frees all of them. */
export interface ModelWeights extends Disposable {
  /** `[vocabulary, hidden]`. */
  readonly embedding: Matrix;
  /** `[vocabulary, hidden]`: {@link embedding} itself in a model whose embeddings are tied. */
  readonly output: Matrix;
  /** `[hidden]`: the norm before the output projection. */
  readonly norm: Tensor;
  /** How all norms but those within a mixer are stored: the weight, or what is added to 1. */
  readonly normForm: WeightForm;
  /** One a layer, in order. */
  readonly layers: readonly (GatedDeltaLayer | AttentionLayer)[];
}
