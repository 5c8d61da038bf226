/** The options of the ops: each a set of names, with the number that crosses the boundary. */
import { constants } from "../native/layout.ts";

/** See {@link GateForm}. */
export const gateForms = {
  decay: constants.GD_GATE_DECAY,
  log: constants.GD_GATE_LOG,
  "neg-log": constants.GD_GATE_NEG_LOG,
  raw: constants.GD_GATE_RAW,
  "raw-ssm": constants.GD_GATE_RAW_SSM,
  "raw-bounded": constants.GD_GATE_RAW_BOUNDED,
} as const;

/**
 * How the decay a in (0, 1] comes from the gate that is given. Systems differ in this, and a wrong guess gives
 * plausible nonsense, so there is no default.
 *
 * | name | decay | given by |
 * |---|---|---|
 * | `decay` | a | mlx-lm, MAX |
 * | `log` | exp(g) | Hugging Face, FLA, ggml |
 * | `neg-log` | exp(−g) | mlx-native |
 * | `raw` | exp(−exp(aLog)·softplus(a + dtBias)) | a Qwen checkpoint's projection, vLLM |
 * | `raw-ssm` | exp(aLog·softplus(a + dtBias)), `aLog` holding ssm_a = −exp(A_log) | GGUF checkpoints |
 * | `raw-bounded` | exp(gateBound·sigmoid(exp(aLog)·(a + dtBias))) | Kimi Linear's bounded gate |
 */
export type GateForm = keyof typeof gateForms;

/** See {@link GateDims}. */
export const gateDimsNames = { head: constants.GD_GATE_PER_HEAD, key: constants.GD_GATE_PER_KEY } as const;

/** One gate a head, or one for every key dimension (Kimi's KDA). */
export type GateDims = keyof typeof gateDimsNames;

/** See {@link BetaForm}. */
export const betaForms = {
  given: constants.GD_BETA_GIVEN,
  sigmoid: constants.GD_BETA_SIGMOID,
  "2-sigmoid": constants.GD_BETA_TWICE_SIGMOID,
} as const;

/** How β comes from what is given: as it is, sigmoid(b), or 2·sigmoid(b) (negative eigenvalues allowed). */
export type BetaForm = keyof typeof betaForms;

/** See {@link HeadMap}. */
export const headMaps = { block: constants.GD_HEADS_BLOCK, tiled: constants.GD_HEADS_TILED } as const;

/**
 * Which key head serves value head hv: `block` is ⌊hv / (valueHeads / keyHeads)⌋ (Hugging Face, MLX, vLLM, MAX),
 * `tiled` is hv mod keyHeads (ggml).
 */
export type HeadMap = keyof typeof headMaps;

/** See {@link QKNorm}. */
export const qkNorms = {
  none: constants.GD_NORM_NONE,
  l2: constants.GD_NORM_L2,
  "l2-max": constants.GD_NORM_L2_MAX,
  rms: constants.GD_NORM_RMS,
} as const;

/**
 * Normalisation of each query and key row x of length keyDim, before the query's scale: `l2` is x·rsqrt(Σx² + eps)
 * (Hugging Face, FLA), `l2-max` x / max(‖x‖, eps) (ggml), `rms` x·rsqrt(Σx² + keyDim·eps) (MLX).
 */
export type QKNorm = keyof typeof qkNorms;

/** See {@link Algorithm}. */
export const algorithms = {
  auto: constants.GD_ALGORITHM_AUTO,
  recurrent: constants.GD_ALGORITHM_RECURRENT,
  chunked: constants.GD_ALGORITHM_CHUNKED,
} as const;

/**
 * `auto` is the fastest that gives the bits of `recurrent`. `chunked` goes through 16 tokens at a time as products of
 * matrices: faster over many tokens, with bits of its own (within its own tolerance), and to be asked for by name. With
 * f32 states calls that end at multiples of 16 tokens of a sequence have the bits of one call. On the CPU a checkpoint
 * or a snapshot changes no other bit; on Metal a chunk ends where a state is stored, so bits may change from there on.
 */
export type Algorithm = keyof typeof algorithms;

/** What {@link causalConv1d} may apply to its sums. */
export const convActivations = { none: constants.GD_ACTIVATION_NONE, silu: constants.GD_ACTIVATION_SILU } as const;

/** Activation of a convolution: none, or x·sigmoid(x). */
export type ConvActivation = keyof typeof convActivations;

/** What {@link gatedRmsNorm} may apply to its gate. */
export const normActivations = {
  silu: constants.GD_ACTIVATION_SILU,
  sigmoid: constants.GD_ACTIVATION_SIGMOID,
} as const;

/** Activation of a norm's gate. */
export type NormActivation = keyof typeof normActivations;

/** See {@link NormOrder}. */
export const normOrders = {
  "norm-then-gate": constants.GD_NORM_THEN_GATE,
  "gate-then-norm": constants.GD_GATE_THEN_NORM,
} as const;

/** Whether x is normalised before it is multiplied by act(z), or after. */
export type NormOrder = keyof typeof normOrders;
