/**
 * Maps ggml's names of tensors (gguf-py, `tensor_mapping.py`; llama.cpp, `conversion/qwen.py`) to mlx-lm's for the same models,
 * because the two converters change the same tensors: norms are stored as 1 + w, and all experts lie in one tensor.
 */

const whole: Readonly<Record<string, string>> = {
  token_embd: "model.embed_tokens",
  output_norm: "model.norm",
  output: "lm_head",
};

/** Modules of a block. */
const modules: Readonly<Record<string, string>> = {
  attn_norm: "input_layernorm",
  post_attention_norm: "post_attention_layernorm",
  ffn_gate: "mlp.gate_proj",
  ffn_up: "mlp.up_proj",
  ffn_down: "mlp.down_proj",
  ffn_gate_inp: "mlp.gate",
  ffn_gate_exps: "mlp.switch_mlp.gate_proj",
  ffn_up_exps: "mlp.switch_mlp.up_proj",
  ffn_gate_up_exps: "mlp.switch_mlp.gate_up_proj",
  ffn_down_exps: "mlp.switch_mlp.down_proj",
  ffn_gate_inp_shexp: "mlp.shared_expert_gate",
  ffn_gate_shexp: "mlp.shared_expert.gate_proj",
  ffn_up_shexp: "mlp.shared_expert.up_proj",
  ffn_down_shexp: "mlp.shared_expert.down_proj",
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_output: "self_attn.o_proj",
  attn_q_norm: "self_attn.q_norm",
  attn_k_norm: "self_attn.k_norm",
  attn_qkv: "linear_attn.in_proj_qkv",
  attn_gate: "linear_attn.in_proj_z",
  ssm_in: "linear_attn.in_proj_qkvz",
  ssm_alpha: "linear_attn.in_proj_a",
  ssm_beta: "linear_attn.in_proj_b",
  ssm_ba: "linear_attn.in_proj_ba",
  ssm_conv1d: "linear_attn.conv1d",
  ssm_norm: "linear_attn.norm",
  ssm_out: "linear_attn.out_proj",
};

/** Tensors of a block that are not a module's weight. */
const tensors: Readonly<Record<string, string>> = {
  ssm_a: "linear_attn.ssm_a",
  "ssm_dt.bias": "linear_attn.dt_bias",
};

/** The joint projection of queries, keys and values, in attention layers of files that the converter wrote with --fuse-qkv. */
const fused = { ggml: "attn_qkv.weight", known: "self_attn.qkv_proj.weight" } as const;

const ofWeights = (names: Readonly<Record<string, string>>) => Object.entries(names).map(([from, to]) => [`${from}.weight`, `${to}.weight`] as const);
const ofWhole = new Map<string, string>(ofWeights(whole));
const ofBlock = new Map<string, string>([...ofWeights(modules), ...Object.entries(tensors)]);
const reversed = (names: ReadonlyMap<string, string>) => new Map([...names].map(([from, to]) => [to, from]));
const toWhole = reversed(ofWhole);
// A mixer's missing gate is reported under transformers' name.
const toBlock = reversed(ofBlock).set("linear_attn.A_log", "ssm_a");

/** The numbers of a model's blocks. */
export interface Blocks {
  /** Blocks before those that predict several tokens. */
  readonly layers: number;
  /** All blocks. */
  readonly all: number;
}

/**
 * The name of a tensor in mlx-lm's layout; undefined if it belongs to no part. All tensors of blocks that predict several tokens
 * are named `mtp.…`.
 *
 * @param hasAttention whether a block has attention instead of a Gated DeltaNet.
 */
export function checkpointName(name: string, { layers, all }: Blocks, hasAttention: (block: number) => boolean): string | undefined {
  const [, block, part] = /^blk\.(0|[1-9]\d{0,5})\.(.+)$/.exec(name) ?? [];
  if (block === undefined || part === undefined) return ofWhole.get(name);
  if (Number(block) >= layers) return Number(block) < all ? `mtp.${name}` : undefined;
  const known = part === fused.ggml && hasAttention(Number(block)) ? fused.known : ofBlock.get(part);
  return known === undefined ? undefined : `model.layers.${block}.${known}`;
}

/** The name in the file, for messages, of a tensor that {@link checkpointName} names. */
export function ggmlName(name: string): string {
  const [, layer, part] = /^model\.layers\.(\d+)\.(.+)$/.exec(name) ?? [];
  if (layer === undefined || part === undefined) return toWhole.get(name) ?? name;
  const known = part === fused.known ? fused.ggml : toBlock.get(part);
  return known === undefined ? name : `blk.${layer}.${known}`;
}
