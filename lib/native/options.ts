// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

/**
 * Element types; bf16 crosses into JavaScript as Uint16Array.
 *
 * - `i32`: only for the host's index data
 * - `u32`: only for words of packed weights
 * - `id32`: 32-bit index data that one op writes, and another reads and checks as it runs
 * - `u8`: only for blocks of packed weights
 */
export type DType = "f32" | "f16" | "bf16" | "i32" | "u32" | "id32" | "u8";

/** See {@link DType}. */
export const dTypes: Readonly<Record<DType, number>> = {
  f32: 1,
  f16: 2,
  bf16: 3,
  i32: 4,
  u32: 5,
  id32: 6,
  u8: 7,
};

/**
 * How the decay a in (0, 1] is computed from the given gate. Systems differ in this, and a wrong guess gives plausible
 * but wrong numbers, so there is no default.
 *
 * - `decay`: a (mlx-lm, MAX)
 * - `log`: exp(g) (Hugging Face, FLA, ggml)
 * - `neg-log`: exp(-g) (mlx-native)
 * - `raw`: exp(-exp(aLog) softplus(a + dtBias)) (a Qwen checkpoint's projection, vLLM)
 * - `raw-ssm`: exp(aLog softplus(a + dtBias)), aLog holding ssm_a = -exp(A_log) (GGUF)
 * - `raw-bounded`: exp(gateBound sigmoid(exp(aLog) (a + dtBias))) (Kimi Linear)
 */
export type GateForm = "decay" | "log" | "neg-log" | "raw" | "raw-ssm" | "raw-bounded";

/** See {@link GateForm}. */
export const gateForms: Readonly<Record<GateForm, number>> = {
  decay: 1,
  log: 2,
  "neg-log": 3,
  raw: 4,
  "raw-ssm": 5,
  "raw-bounded": 6,
};

/**
 * One gate per head, or one per key dimension.
 *
 * - `key`: Kimi's KDA
 */
export type GateDims = "head" | "key";

/** See {@link GateDims}. */
export const gateDims: Readonly<Record<GateDims, number>> = {
  head: 1,
  key: 2,
};

/**
 * How beta is computed from the given values.
 *
 * - `given`: b
 * - `sigmoid`: sigmoid(b)
 * - `2-sigmoid`: 2 sigmoid(b), which allows negative eigenvalues
 */
export type BetaForm = "given" | "sigmoid" | "2-sigmoid";

/** See {@link BetaForm}. */
export const betaForms: Readonly<Record<BetaForm, number>> = {
  given: 1,
  sigmoid: 2,
  "2-sigmoid": 3,
};

/**
 * Which key head serves value head hv.
 *
 * - `block`: hv / (valueHeads / keyHeads), rounded down (Hugging Face, MLX, vLLM, MAX)
 * - `tiled`: hv mod keyHeads (ggml)
 */
export type HeadMap = "block" | "tiled";

/** See {@link HeadMap}. */
export const headMaps: Readonly<Record<HeadMap, number>> = {
  block: 1,
  tiled: 2,
};

/**
 * Normalisation of each query and key row x of length keyDim, before the query's scale.
 *
 * - `l2`: x rsqrt(sum x^2 + eps) (Hugging Face, FLA)
 * - `l2-max`: x / max(sqrt(sum x^2), eps) (ggml)
 * - `rms`: x rsqrt(sum x^2 + keyDim eps) (MLX)
 */
export type QKNorm = "none" | "l2" | "l2-max" | "rms";

/** See {@link QKNorm}. */
export const qkNorms: Readonly<Record<QKNorm, number>> = {
  none: 1,
  l2: 2,
  "l2-max": 3,
  rms: 4,
};

/**
 * How prefill is computed.
 *
 * - `auto`: the fastest that gives the bits of recurrent
 * - `recurrent`: token by token
 * - `chunked`: 16 tokens at a time, as matrix products, with different bits; CPU only
 */
export type Algorithm = "auto" | "recurrent" | "chunked";

/** See {@link Algorithm}. */
export const algorithms: Readonly<Record<Algorithm, number>> = {
  auto: 0,
  recurrent: 1,
  chunked: 2,
};

/**
 * How a GPU multiplies matrices. The two give different bits.
 *
 * - `rows`: as sums of rows in a documented order
 * - `matrix`: with the GPU's matrix units, which sum in an order of their own; Metal only
 */
export type Products = "rows" | "matrix";

/** See {@link Products}. */
export const products: Readonly<Record<Products, number>> = {
  rows: 0,
  matrix: 1,
};

/**
 * The function applied to a sum or a gate.
 *
 * - `none`: x
 * - `silu`: x sigmoid(x)
 * - `sigmoid`: sigmoid(x)
 */
export type Activation = "none" | "silu" | "sigmoid";

/** See {@link Activation}. */
export const activations: Readonly<Record<Activation, number>> = {
  none: 1,
  silu: 2,
  sigmoid: 3,
};

/**
 * The function applied to a convolution's sums.
 *
 * - `none`: x
 * - `silu`: x sigmoid(x)
 */
export type ConvActivation = "none" | "silu";

/** See {@link ConvActivation}. */
export const convActivations: Readonly<Record<ConvActivation, number>> = {
  none: 1,
  silu: 2,
};

/**
 * The function applied to a norm's gate.
 *
 * - `silu`: x sigmoid(x)
 * - `sigmoid`: sigmoid(x)
 */
export type NormActivation = "silu" | "sigmoid";

/** See {@link NormActivation}. */
export const normActivations: Readonly<Record<NormActivation, number>> = {
  silu: 2,
  sigmoid: 3,
};

/**
 * The factor of a norm's rows.
 *
 * - `weight`: w
 * - `one-plus-weight`: 1 + w (Qwen3.5)
 */
export type WeightForm = "weight" | "one-plus-weight";

/** See {@link WeightForm}. */
export const weightForms: Readonly<Record<WeightForm, number>> = {
  weight: 1,
  "one-plus-weight": 2,
};

/**
 * How a matrix is stored: as floats; in MLX's affine form of 2 to 8 bits with a scale and a bias for each group (g) of
 * 32, 64 or 128 columns; in one of ggml's block types, as in GGUF files, whose elements are those that ggml's
 * dequantize_row functions give in float32 ("@unpack Ggml" has ggml's number of the type); or in one of MLX's
 * micro-scaled forms: small floats with a one-byte scale for each 32 or 16 columns.
 */
export type WeightFormat =
  | "f32"
  | "f16"
  | "bf16"
  | "affine2-g32"
  | "affine2-g64"
  | "affine2-g128"
  | "affine3-g32"
  | "affine3-g64"
  | "affine3-g128"
  | "affine4-g32"
  | "affine4-g64"
  | "affine4-g128"
  | "affine5-g32"
  | "affine5-g64"
  | "affine5-g128"
  | "affine6-g32"
  | "affine6-g64"
  | "affine6-g128"
  | "affine8-g32"
  | "affine8-g64"
  | "affine8-g128"
  | "q4_0"
  | "q4_1"
  | "q5_0"
  | "q5_1"
  | "q8_0"
  | "q2_k"
  | "q3_k"
  | "q4_k"
  | "q5_k"
  | "q6_k"
  | "iq4_nl"
  | "iq4_xs"
  | "gguf-mxfp4"
  | "mxfp4"
  | "mxfp8"
  | "nvfp4";

/** See {@link WeightFormat}. */
export const weightFormats: Readonly<Record<WeightFormat, number>> = {
  f32: 1,
  f16: 2,
  bf16: 3,
  "affine2-g32": 4,
  "affine2-g64": 5,
  "affine2-g128": 6,
  "affine3-g32": 7,
  "affine3-g64": 8,
  "affine3-g128": 9,
  "affine4-g32": 10,
  "affine4-g64": 11,
  "affine4-g128": 12,
  "affine5-g32": 13,
  "affine5-g64": 14,
  "affine5-g128": 15,
  "affine6-g32": 16,
  "affine6-g64": 17,
  "affine6-g128": 18,
  "affine8-g32": 19,
  "affine8-g64": 20,
  "affine8-g128": 21,
  q4_0: 22,
  q4_1: 23,
  q5_0: 24,
  q5_1: 25,
  q8_0: 26,
  q2_k: 27,
  q3_k: 28,
  q4_k: 29,
  q5_k: 30,
  q6_k: 31,
  iq4_nl: 32,
  iq4_xs: 33,
  "gguf-mxfp4": 34,
  mxfp4: 35,
  mxfp8: 36,
  nvfp4: 37,
};

/**
 * How rows of x are multiplied by a packed weight. int8 concerns weights that are, within a group of columns, a scale
 * times an integer plus an offset: MLX's affine forms, mxfp4 and nvfp4 (their own group), ggml's q2_k, q3_k and q6_k
 * (16 columns) and its other types (32). Floats and MLX's mxfp8 are multiplied exactly in either form. int8 is CPU
 * only.
 *
 * - `exact`: as they are
 * - `int8`: rounded to 8 bits, group by group; products are exact integer sums
 */
export type ActivationForm = "exact" | "int8";

/** See {@link ActivationForm}. */
export const activationForms: Readonly<Record<ActivationForm, number>> = {
  exact: 0,
  int8: 1,
};

/**
 * Whether x is normalised before it is multiplied by act(z), or after.
 *
 * - `norm-then-gate`: n(x) act(z) (Qwen3-Next)
 * - `gate-then-norm`: n(x act(z)) (Mamba-2)
 */
export type NormOrder = "norm-then-gate" | "gate-then-norm";

/** See {@link NormOrder}. */
export const normOrders: Readonly<Record<NormOrder, number>> = {
  "norm-then-gate": 1,
  "gate-then-norm": 2,
};
