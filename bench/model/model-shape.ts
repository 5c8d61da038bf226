/** Sizes of Qwen3.5 text models, dense and with experts, and the tensors that follow from them, under their names in checkpoints. */

/** A model's sizes, under the names in `config.json`. */
export interface ModelShape {
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly vocab_size: number;
  readonly num_hidden_layers: number;
  readonly full_attention_interval: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly linear_num_key_heads: number;
  readonly linear_num_value_heads: number;
  readonly linear_key_head_dim: number;
  readonly linear_value_head_dim: number;
  readonly linear_conv_kernel_dim: number;
  readonly max_position_embeddings: number;
  readonly tie_word_embeddings: boolean;
  /** The sizes of a mixture of experts in each layer, which has no MLP of `intermediate_size`. */
  readonly experts?: {
    readonly num_experts: number;
    readonly num_experts_per_tok: number;
    readonly moe_intermediate_size: number;
    readonly shared_expert_intermediate_size: number;
  };
}

/** Qwen/Qwen3.5-0.8B's text model (its released `config.json`). */
export const qwen08B: ModelShape = {
  hidden_size: 1024,
  intermediate_size: 3584,
  vocab_size: 248320,
  num_hidden_layers: 24,
  full_attention_interval: 4,
  num_attention_heads: 8,
  num_key_value_heads: 2,
  head_dim: 256,
  linear_num_key_heads: 16,
  linear_num_value_heads: 16,
  linear_key_head_dim: 128,
  linear_value_head_dim: 128,
  linear_conv_kernel_dim: 4,
  max_position_embeddings: 262144,
  tie_word_embeddings: true,
};

/** Qwen/Qwen3.5-35B-A3B's text model (transformers, `Qwen3_5MoeTextConfig`) with 8 of its 40 layers. */
export const qwen35BA3B: ModelShape = {
  hidden_size: 2048,
  intermediate_size: 0,
  vocab_size: 248320,
  num_hidden_layers: 8,
  full_attention_interval: 4,
  num_attention_heads: 16,
  num_key_value_heads: 2,
  head_dim: 256,
  linear_num_key_heads: 16,
  linear_num_value_heads: 32,
  linear_key_head_dim: 128,
  linear_value_head_dim: 128,
  linear_conv_kernel_dim: 4,
  max_position_embeddings: 262144,
  tie_word_embeddings: false,
  experts: { num_experts: 256, num_experts_per_tok: 8, moe_intermediate_size: 512, shared_expert_intermediate_size: 512 },
};

/** A model of the same kind whose weights take 4 GB in 4 bits. */
export const large: ModelShape = {
  ...qwen08B,
  hidden_size: 4096,
  intermediate_size: 12288,
  num_attention_heads: 16,
  num_key_value_heads: 4,
  linear_num_value_heads: 32,
  tie_word_embeddings: false,
};

/** A model of the same kind that takes only a moment to run. */
export const tiny: ModelShape = {
  hidden_size: 128,
  intermediate_size: 256,
  vocab_size: 512,
  num_hidden_layers: 4,
  full_attention_interval: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 64,
  linear_num_key_heads: 2,
  linear_num_value_heads: 4,
  linear_key_head_dim: 32,
  linear_value_head_dim: 32,
  linear_conv_kernel_dim: 4,
  max_position_embeddings: 4096,
  tie_word_embeddings: false,
};

/** The use of a tensor, which determines its numbers. */
export type Role = "matrix" | "norm" | "gated norm" | "convolution" | "A_log" | "dt_bias";

/** One tensor, or one module that may be quantised if its role is `matrix`. */
export interface Part {
  /** The module's name for a matrix, otherwise the tensor's. */
  readonly name: string;
  readonly role: Role;
  readonly shape: readonly number[];
}

/** The parts of the embedding, the output projection and the last norm. */
export function frameParts(shape: ModelShape, root: string): Part[] {
  const { vocab_size: vocabulary, hidden_size: hidden } = shape;
  const table = { role: "matrix", shape: [vocabulary, hidden] } as const;
  return [
    { name: `${root}embed_tokens`, ...table },
    { name: `${root}norm.weight`, role: "norm", shape: [hidden] },
    ...(shape.tie_word_embeddings ? [] : [{ name: `${root.replace(/model\.$/, "")}lm_head`, ...table }]),
  ];
}

/**
 * The parts of layer `layer`.
 *
 * @param mlx whether experts are in three tensors, as in mlx-lm, or in two, as released.
 */
export function layerParts(shape: ModelShape, root: string, layer: number, mlx: boolean): Part[] {
  const { hidden_size: hidden, intermediate_size: wide, head_dim: dim } = shape;
  const prefix = `${root}layers.${layer}.`;
  const matrix = (name: string, ...size: number[]): Part => ({ name: prefix + name, role: "matrix", shape: size });
  const vector = (name: string, role: Role, ...size: number[]): Part => ({ name: prefix + name, role, shape: size });
  const keys = shape.linear_num_key_heads * shape.linear_key_head_dim;
  const values = shape.linear_num_value_heads * shape.linear_value_head_dim;
  const heads = shape.linear_num_value_heads;
  const channels = 2 * keys + values;
  const mixing = (layer + 1) % shape.full_attention_interval === 0
    ? [
        matrix("self_attn.q_proj", 2 * shape.num_attention_heads * dim, hidden),
        matrix("self_attn.k_proj", shape.num_key_value_heads * dim, hidden),
        matrix("self_attn.v_proj", shape.num_key_value_heads * dim, hidden),
        matrix("self_attn.o_proj", hidden, shape.num_attention_heads * dim),
        vector("self_attn.q_norm.weight", "norm", dim),
        vector("self_attn.k_norm.weight", "norm", dim),
      ]
    : [
        matrix("linear_attn.in_proj_qkv", channels, hidden),
        matrix("linear_attn.in_proj_z", values, hidden),
        matrix("linear_attn.in_proj_b", heads, hidden),
        matrix("linear_attn.in_proj_a", heads, hidden),
        vector("linear_attn.conv1d.weight", "convolution", channels, shape.linear_conv_kernel_dim),
        vector("linear_attn.A_log", "A_log", heads),
        vector("linear_attn.dt_bias", "dt_bias", heads),
        vector("linear_attn.norm.weight", "gated norm", shape.linear_value_head_dim),
        matrix("linear_attn.out_proj", hidden, values),
      ];
  return [
    vector("input_layernorm.weight", "norm", hidden),
    ...mixing,
    vector("post_attention_layernorm.weight", "norm", hidden),
    ...(shape.experts === undefined ? dense("mlp.", wide) : experts(shape.experts)),
  ];

  function dense(module: string, wide: number): Part[] {
    return [matrix(`${module}gate_proj`, wide, hidden), matrix(`${module}up_proj`, wide, hidden), matrix(`${module}down_proj`, hidden, wide)];
  }

  function experts({ num_experts: count, moe_intermediate_size: wide, shared_expert_intermediate_size: shared }: NonNullable<ModelShape["experts"]>): Part[] {
    const stacked = ["gate", "up"].map((name) => matrix(`mlp.switch_mlp.${name}_proj`, count, wide, hidden));
    return [
      matrix("mlp.gate", count, hidden),
      ...(mlx ? stacked : [matrix("mlp.experts.gate_up_proj", count, 2 * wide, hidden)]),
      matrix(mlx ? "mlp.switch_mlp.down_proj" : "mlp.experts.down_proj", count, hidden, wide),
      ...dense("mlp.shared_expert.", shared),
      matrix("mlp.shared_expert_gate", 1, hidden),
    ];
  }
}
