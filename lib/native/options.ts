// Generated from gated_delta.h by swift/scripts/layout.mjs: change that header and run it again.

/**
 * Element types; bf16 crosses into JavaScript as Uint16Array.
 *
 * - `i32`: index data only
 * - `u32`: words of packed weights only
 */
export type DType = keyof typeof dTypes;

/** See {@link DType}. */
export const dTypes = {
  f32: 1,
  f16: 2,
  bf16: 3,
  i32: 4,
  u32: 5,
} as const;

/**
 * How the decay a in (0, 1] comes from the gate that is given. Systems differ in this, and a wrong guess gives
 * plausible nonsense, so there is no default.
 *
 * - `decay`: a (mlx-lm, MAX)
 * - `log`: exp(g) (Hugging Face, FLA, ggml)
 * - `neg-log`: exp(-g) (mlx-native)
 * - `raw`: exp(-exp(aLog) softplus(a + dtBias)) (a Qwen checkpoint's projection, vLLM)
 * - `raw-ssm`: exp(aLog softplus(a + dtBias)), aLog holding ssm_a = -exp(A_log) (GGUF)
 * - `raw-bounded`: exp(gateBound sigmoid(exp(aLog) (a + dtBias))) (Kimi Linear)
 */
export type GateForm = keyof typeof gateForms;

/** See {@link GateForm}. */
export const gateForms = {
  decay: 1,
  log: 2,
  "neg-log": 3,
  raw: 4,
  "raw-ssm": 5,
  "raw-bounded": 6,
} as const;

/**
 * One gate a head, or one for every key dimension.
 *
 * - `key`: Kimi's KDA
 */
export type GateDims = keyof typeof gateDims;

/** See {@link GateDims}. */
export const gateDims = {
  head: 1,
  key: 2,
} as const;

/**
 * How beta comes from what is given.
 *
 * - `given`: b
 * - `sigmoid`: sigmoid(b)
 * - `2-sigmoid`: 2 sigmoid(b), which allows negative eigenvalues
 */
export type BetaForm = keyof typeof betaForms;

/** See {@link BetaForm}. */
export const betaForms = {
  given: 1,
  sigmoid: 2,
  "2-sigmoid": 3,
} as const;

/**
 * Which key head serves value head hv.
 *
 * - `block`: hv / (valueHeads / keyHeads), rounded down (Hugging Face, MLX, vLLM, MAX)
 * - `tiled`: hv mod keyHeads (ggml)
 */
export type HeadMap = keyof typeof headMaps;

/** See {@link HeadMap}. */
export const headMaps = {
  block: 1,
  tiled: 2,
} as const;

/**
 * Normalisation of each query and key row x of length keyDim, before the query's scale.
 *
 * - `l2`: x rsqrt(sum x^2 + eps) (Hugging Face, FLA)
 * - `l2-max`: x / max(sqrt(sum x^2), eps) (ggml)
 * - `rms`: x rsqrt(sum x^2 + keyDim eps) (MLX)
 */
export type QKNorm = keyof typeof qkNorms;

/** See {@link QKNorm}. */
export const qkNorms = {
  none: 1,
  l2: 2,
  "l2-max": 3,
  rms: 4,
} as const;

/**
 * How prefill is computed.
 *
 * - `auto`: the fastest that gives the bits of recurrent
 * - `recurrent`: token by token
 * - `chunked`: 16 tokens at a time as products of matrices, with bits of its own
 */
export type Algorithm = keyof typeof algorithms;

/** See {@link Algorithm}. */
export const algorithms = {
  auto: 0,
  recurrent: 1,
  chunked: 2,
} as const;

/**
 * What a sum or a gate goes through.
 *
 * - `none`: x
 * - `silu`: x sigmoid(x)
 * - `sigmoid`: sigmoid(x)
 */
export type Activation = keyof typeof activations;

/** See {@link Activation}. */
export const activations = {
  none: 1,
  silu: 2,
  sigmoid: 3,
} as const;

/**
 * What a convolution's sums go through.
 *
 * - `none`: x
 * - `silu`: x sigmoid(x)
 */
export type ConvActivation = keyof typeof convActivations;

/** See {@link ConvActivation}. */
export const convActivations = {
  none: 1,
  silu: 2,
} as const;

/**
 * What a norm's gate goes through.
 *
 * - `silu`: x sigmoid(x)
 * - `sigmoid`: sigmoid(x)
 */
export type NormActivation = keyof typeof normActivations;

/** See {@link NormActivation}. */
export const normActivations = {
  silu: 2,
  sigmoid: 3,
} as const;

/**
 * What a norm's rows are multiplied by.
 *
 * - `weight`: w
 * - `one-plus-weight`: 1 + w (Qwen3.5)
 */
export type WeightForm = keyof typeof weightForms;

/** See {@link WeightForm}. */
export const weightForms = {
  weight: 1,
  "one-plus-weight": 2,
} as const;

/**
 * Whether x is normalised before it is multiplied by act(z), or after.
 *
 * - `norm-then-gate`: n(x) act(z) (Qwen3-Next)
 * - `gate-then-norm`: n(x act(z)) (Mamba-2)
 */
export type NormOrder = keyof typeof normOrders;

/** See {@link NormOrder}. */
export const normOrders = {
  "norm-then-gate": 1,
  "gate-then-norm": 2,
} as const;
