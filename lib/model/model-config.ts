/** Shape and options of a text model, read from a Hugging Face `config.json`. */

import type { LayerConfig } from "../checkpoint/mixer-config.ts";

/** How a layer mixes tokens: by a Gated DeltaNet, or by attention over all earlier tokens. */
export type LayerType = "gatedDelta" | "attention";

/** Shape and options of the attention layers. */
export interface AttentionConfig {
  /** Number of query heads (`num_attention_heads`). */
  readonly heads: number;
  /** Number of key and value heads (`num_key_value_heads`), a divisor of {@link heads}. */
  readonly kvHeads: number;
  /** Length of a head (`head_dim`). */
  readonly headDim: number;
  /** Whether each head's output is multiplied by the sigmoid of a gate, which comes from the query's projection. */
  readonly gated: boolean;
  /** Whether queries and keys go through an RMS norm head by head, or with all heads of a token together. */
  readonly norm: "head" | "projection";
  /** Number of a head's first dimensions that are rotated by the position (`partial_rotary_factor` of them): even, 0 for none. */
  readonly rotaryDim: number;
  /** Base of the rotation's frequencies (`rope_theta`); undefined if nothing is rotated. */
  readonly ropeTheta: number | undefined;
}

/** Shape and options of the layers whose MLP is a mixture of experts. */
export interface ExpertsConfig {
  /** Number of experts of a layer (`num_experts`). */
  readonly count: number;
  /** Number of experts that each token goes through (`num_experts_per_tok`), at most {@link count}. */
  readonly perToken: number;
  /** Width inside an expert (`moe_intermediate_size`). */
  readonly intermediateSize: number;
  /** Width inside the shared expert, which all tokens go through (`shared_expert_intermediate_size`). */
  readonly sharedIntermediateSize: number;
  /** Whether the weights of a token's experts are divided by their sum (`norm_topk_prob`). */
  readonly normalized: boolean;
  /** The layers with experts, ascending; others have a dense MLP. */
  readonly layers: readonly number[];
}

/** Shape and options of a whole model. */
export interface ModelConfig {
  /** The model's family, by a `model_type` of transformers: `qwen3_5`, `qwen3_5_moe`, `qwen3_next` or `olmo_hybrid`. */
  readonly family: string;
  /** Width of the hidden states (`hidden_size`). */
  readonly hiddenSize: number;
  /** Width inside a dense MLP (`intermediate_size`); 0 in a model whose layers all have experts. */
  readonly intermediateSize: number;
  /** The mixtures of experts; undefined for a dense model. */
  readonly experts?: ExpertsConfig | undefined;
  /** Number of token ids, 0 .. vocabSize - 1 (`vocab_size`). */
  readonly vocabSize: number;
  /** Epsilon of every RMS norm (`rms_norm_eps`). */
  readonly normEps: number;
  /** Whether the output projection is the embedding itself (`tie_word_embeddings`). */
  readonly tied: boolean;
  /** Number of positions, 0 .. maxPositions - 1 (`max_position_embeddings`). */
  readonly maxPositions: number;
  /** The type of each layer, from first to last. */
  readonly layers: readonly LayerType[];
  /** The shape of the attention layers. */
  readonly attention: AttentionConfig;
  /** The configuration of every Gated DeltaNet layer. */
  readonly mixer: LayerConfig;
  /** Tokens that end a text: `eos_token_id` of `generation_config.json` and of `config.json` together; may be empty. */
  readonly eosTokens: readonly number[];
}
