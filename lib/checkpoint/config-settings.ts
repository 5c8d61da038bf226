/**
 * The treatment of each setting of a `config.json` that transformers 5.24 (`configuration_*.py`, `modeling_*.py`,
 * `modeling_rope_utils.py`, `masking_utils.py`) or mlx-lm 0.32 (`models/*.py`) reads for the architectures that are loaded here.
 * A setting that neither reads is ignored.
 */
import { unsupportedValue } from "./config-errors.ts";
import { isRecord } from "./json.ts";
import type { ConfigPlace } from "./config-errors.ts";

/**
 * `computed`: read by the parsers. `harmless`: changes no logits, for the reason given. `only`: the computation has these values, which
 * are also the meaning of a setting that is missing or null; any other value is refused.
 */
export type Fate = "computed" | { readonly harmless: string } | { readonly only: readonly unknown[]; readonly why: string };

export type Settings = Readonly<Record<string, Fate>>;

const unused = { harmless: "of training, of other tasks or of how a program runs" } as const;
const ofMemory = { harmless: "the type in which something is kept; here the load's options set it" } as const;
const ofExperts = { harmless: "about experts, which dense models do not have" } as const;
const ofPictures = { harmless: "about images and videos, which are not read" } as const;
const silu = { only: ["silu", "swish"], why: "the kernels have one activation" } as const;
/** Settings of other architectures. Neither program reads them for those here, so a configuration that has them is another model's. */
export const ofOthers = (...values: readonly unknown[]) => ({ only: values, why: "a step of other architectures, which is not computed" }) as const;

/** Settings that the parsers read. */
export const computed = (...keys: readonly string[]): Settings => Object.fromEntries(keys.map((key) => [key, "computed"]));

const layers = computed("hidden_size", "num_hidden_layers", "layer_types");

const headSizes: Settings = {
  ...layers,
  ...computed("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim"),
};

/** Settings of mixers with a decay for each key dimension. */
const kda: Settings = {
  ...layers,
  ...computed("rms_norm_eps", "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"),
  ...computed("linear_attn_config.num_heads", "linear_attn_config.head_dim", "linear_attn_config.short_conv_kernel_size"),
  hidden_act: silu,
};

/** A mixer's settings, by architecture, without those that only attention, the MLP or the experts read. */
export const mixerSettings = {
  qwen: {
    ...headSizes,
    ...computed("rms_norm_eps", "full_attention_interval", "output_gate_type", "linear_value_head_order"),
    hidden_act: silu,
    mamba_ssm_dtype: ofMemory,
  },
  olmo: {
    ...headSizes,
    ...computed("num_attention_heads", "linear_allow_neg_eigval"),
    linear_value_head_order: ofOthers("block"),
    hidden_act: silu,
    layer_norm_epsilon: { only: [1e-5], why: "transformers' mixer always has this epsilon; mlx-lm reads it" },
    rms_norm_eps: { harmless: "of the layers' other norms; the mixer's own has 1e-5" },
    linear_a_log_min: unused,
    linear_a_log_max: unused,
    linear_dt_min: unused,
    linear_dt_max: unused,
    linear_dt_init_floor: unused,
  },
  kimi: {
    ...kda,
    ...computed("linear_attn_config.kda_layers", "linear_attn_config.gate_lower_bound"),
    hidden_act: { only: ["silu", "swish", "situ"], why: "the activation of transformers' convolution, which is SiLU; Kimi K3's situ is the MLP's" },
    "linear_attn_config.full_attn_layers": { harmless: "all layers that are not in kda_layers" },
    "linear_attn_config.use_full_rank_gate": { harmless: "the checkpoint's tensor names show whether the gate is one matrix or two" },
  },
  glm: {
    ...kda,
    ...computed("linear_lower_bound", "linear_attn_config.gate_lower_bound", "linear_attn_config.lower_bound", "linear_attn_config.safe_gate"),
  },
  bailing: {
    ...kda,
    ...computed("num_attention_heads", "head_dim", "short_conv_kernel_size", "layer_group_size", "kda_safe_gate", "kda_lower_bound"),
  },
} as const satisfies Record<string, Settings>;

/** Settings of whole text models that all families treat in the same way. */
export const modelSettings: Settings = {
  ...headSizes,
  ...computed("model_type", "text_config", "intermediate_size", "vocab_size", "rms_norm_eps", "num_attention_heads", "num_key_value_heads", "head_dim"),
  ...computed("max_position_embeddings", "tie_word_embeddings", "eos_token_id", "rope_parameters", "rope_theta", "quantization", "quantization_config"),
  linear_value_head_order: "computed",
  num_experts: { only: [0], why: "a dense model has none" },
  num_local_experts: ofOthers(0),
  n_routed_experts: ofOthers(0),
  hidden_act: silu,
  attention_bias: { only: [false], why: "the projections of attention have no biases" },
  is_causal: { only: [true], why: "a token attends only to earlier ones" },
  mlp_bias: ofOthers(false),
  use_sliding_window: ofOthers(false),
  attention_chunk_size: ofOthers(),
  attn_logit_softcapping: ofOthers(),
  final_logit_softcapping: ofOthers(),
  query_pre_attn_scalar: ofOthers(),
  attention_multiplier: ofOthers(),
  embedding_multiplier: ofOthers(1),
  residual_multiplier: ofOthers(1),
  lm_head_multiplier: ofOthers(1),
  logit_scale: ofOthers(1),
  logits_scaling: ofOthers(1),
  swiglu_limit: ofOthers(),
  no_rope_layers: ofOthers(),
  rope_local_base_freq: ofOthers(),
  sliding_window: { harmless: "of layers of the type sliding_attention, which are refused" },
  max_window_layers: { harmless: "as sliding_window" },
  mamba_ssm_dtype: ofMemory,
  dtype: ofMemory,
  torch_dtype: ofMemory,
  attention_dropout: unused,
  initializer_range: unused,
  use_cache: unused,
  pad_token_id: unused,
  bos_token_id: { harmless: "the tokenizer decides how a text begins" },
  chunk_size_feed_forward: { harmless: "splits the MLP's rows, which are independent" },
  output_router_logits: ofExperts,
  router_aux_loss_coef: ofExperts,
  decoder_sparse_step: ofExperts,
  mlp_only_layers: ofExperts,
  moe_intermediate_size: ofExperts,
  shared_expert_intermediate_size: ofExperts,
  num_experts_per_tok: ofExperts,
  norm_topk_prob: ofExperts,
  mtp_num_hidden_layers: { harmless: "of multi-token prediction, which is not loaded" },
  mtp_use_dedicated_embeddings: { harmless: "as mtp_num_hidden_layers" },
  vision_config: ofPictures,
  image_token_id: ofPictures,
  video_token_id: ofPictures,
  vision_start_token_id: ofPictures,
  vision_end_token_id: ofPictures,
};

/** The members of `rope_parameters` and `rope_scaling`. Others are refused: they belong to rotations that are not computed. */
export const rotationSettings: Settings = {
  rope_type: { only: ["default"], why: "positions are not scaled" },
  type: { only: ["default"], why: "positions are not scaled; rope_type of older versions" },
  rope_theta: "computed",
  partial_rotary_factor: "computed",
  factor: { only: [1], why: "positions are not scaled" },
  attention_factor: { only: [1], why: "cosine and sine are not scaled" },
  mrope_section: { harmless: "assigns dimensions to three positions, which are equal for text" },
  mrope_interleaved: { harmless: "as mrope_section" },
  original_max_position_embeddings: { harmless: "read by rotations that scale positions" },
};

/**
 * Refuses settings whose values differ from the computation's.
 *
 * @param prefix put before the keys in errors, such as `rope_scaling.`.
 * @throws {UnsupportedError} that names the first one.
 */
export function refuseSettings(settings: Settings, part: unknown, place: ConfigPlace, prefix = ""): void {
  for (const [key, fate] of Object.entries(settings)) {
    if (typeof fate === "string" || !("only" in fate)) continue;
    const value = valueOf(part, key);
    if (value === undefined || value === null || fate.only.includes(value)) continue;
    const expected = fate.only.length === 0 ? "none" : fate.only.map((one) => JSON.stringify(one)).join(" or ");
    throw unsupportedValue(place, prefix + key, `${expected} (${fate.why})`, value);
  }
}

/** Refuses a rotation that is not computed. `key` is its place in the configuration. */
export function refuseRotation(rotation: unknown, place: ConfigPlace, key: string): void {
  refuseSettings(rotationSettings, rotation, place, `${key}.`);
  for (const [name, value] of Object.entries(isRecord(rotation) ? rotation : {})) {
    if (value === null || Object.hasOwn(rotationSettings, name)) continue;
    throw unsupportedValue(place, `${key}.${name}`, `one of ${Object.keys(rotationSettings).join(", ")}`, value);
  }
}

function valueOf(part: unknown, key: string): unknown {
  let value = part;
  for (const name of key.split(".")) value = isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  return value;
}
