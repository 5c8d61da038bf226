/** The tensors of a whole model on a device. */

import type { GatedDeltaNet } from "../layer/gated-delta-net.ts";
import type { Matrix } from "../checkpoint/matrix.ts";
import type { WeightForm } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Family } from "./families/family.ts";

/** The weights of an MLP. */
export type Mlp = DenseMlp | Mixture;

/** A dense MLP: `down(silu(gate(x)) · up(x))`. */
export interface DenseMlp {
  readonly kind: "dense";
  /** `[intermediate, hidden]`. */
  readonly gate: Matrix;
  /** `[intermediate, hidden]`. */
  readonly up: Matrix;
  /** `[hidden, intermediate]`. */
  readonly down: Matrix;
}

/**
 * A mixture of experts, which are MLPs: the sum of the experts that the router chooses for a token, each times its weight, and
 * the shared expert times the sigmoid of its gate.
 */
export interface Mixture {
  readonly kind: "experts";
  /** `[experts, hidden]`. */
  readonly router: Matrix;
  /** `[experts, 2 · intermediate, hidden]`, each expert's gate, then its up; or both separately, `[experts, intermediate, hidden]` each. */
  readonly gateUp: readonly Matrix[];
  /** `[experts, hidden, intermediate]`. */
  readonly down: Matrix;
  readonly shared: DenseMlp;
  /** `[1, hidden]`. */
  readonly sharedGate: Matrix;
}

/** The weights of an attention layer. */
export interface AttentionWeights {
  /** `[heads · headDim, hidden]`; `[heads · 2 · headDim, hidden]` if attention is gated: each head's query, then its gate. */
  readonly query: Matrix;
  /** `[kvHeads · headDim, hidden]`. */
  readonly key: Matrix;
  /** `[kvHeads · headDim, hidden]`. */
  readonly value: Matrix;
  /** `[hidden, heads · headDim]`. */
  readonly output: Matrix;
  /** `[headDim]`, or `[heads · headDim]` if whole projections are normed, in the model's {@link ModelWeights.normForm}. */
  readonly queryNorm: Tensor;
  /** `[headDim]` or `[kvHeads · headDim]`, likewise. */
  readonly keyNorm: Tensor;
}

/** The part of a layer's weights that all families have. */
export interface WithMlp {
  readonly mlp: Mlp;
}

/** A layer of a model. */
export interface ModelLayer {
  /** The layer's weights, except for those of its mixer, as its family defines them. */
  readonly weights: WithMlp;
  /** The layer's Gated DeltaNet, if it has one. The k-th of a model has `poolLayer` k. */
  readonly mixer: GatedDeltaNet | undefined;
}

/** The tensors of a whole model. Disposing frees all of them. */
export interface ModelWeights extends Disposable {
  /** Makes the ops of the layers. */
  readonly family: Family;
  /** `[vocabulary, hidden]`. */
  readonly embedding: Matrix;
  /** `[vocabulary, hidden]`: {@link embedding} itself in a model whose embeddings are tied. */
  readonly output: Matrix;
  /** `[hidden]`: the norm before the output projection. */
  readonly norm: Tensor;
  /** The stored form of all norms outside mixers: the weight, or a number that is added to 1. */
  readonly normForm: WeightForm;
  /** All layers, in order. */
  readonly layers: readonly ModelLayer[];
}
