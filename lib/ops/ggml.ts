/**
 * The four fused ops under ggml's names and conventions (https://github.com/ggml-org/ggml, `ggml_gated_delta_net` and
 * `ggml_ssm_conv`, with the in-place and ids forms that llama.cpp's forks give them). Everything is f32. Dimensions: B
 * sequences of T tokens, heads Hk and Hv, dim S; C channels, K taps.
 */
import type { Tensor } from "../tensor/tensor.ts";
import type { Indices } from "./indices.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Inputs and outputs of both forms of the recurrence. */
export interface GatedDeltaNetArguments {
  /** `[B, T, Hk, S]`, f32. S is a multiple of 8 in 8..256. */
  readonly q: Tensor;
  /** `[B, T, Hk, S]`, f32. */
  readonly k: Tensor;
  /** `[B, T, Hv, S]`, f32. Value head h uses key head h mod Hk. */
  readonly v: Tensor;
  /** `[B, T, Hv]`, or `[B, T, Hv, S]` for a gate per key dimension (KDA), f32: the logarithm of the decay. */
  readonly gate: Tensor;
  /** `[B, T, Hv]`, f32, as it is used. */
  readonly beta: Tensor;
  /**
   * Written: `[K, B, Hv, S, S]`, f32, contiguous. Entry j is the state after all but the last j tokens, 0 the newest;
   * entries j ≥ T keep their contents. @default none
   */
  readonly snapshots?: Tensor | undefined;
  /** Written: `[B, T, Hv, S]`, f32, scaled by 1/√S. */
  readonly out: Tensor;
}

/** Arguments of {@link gatedDeltaNetInplace}. */
export interface GatedDeltaNetInplaceArguments extends GatedDeltaNetArguments {
  /** Read: `[B, Hv, S(value), S(key)]`, f32, contiguous. */
  readonly state: Tensor;
  /** Written: as `state`, either the same range of memory or one that shares nothing with it. */
  readonly stateDst: Tensor;
}

/** Which slots a form with ids reads and writes. */
export interface IdsArguments {
  /** `[B]`: the slot that each sequence reads; −1 starts from stored zeros, so that an old NaN in a slot can't survive. */
  readonly ids: Indices;
  /** Sequence s writes slot rsHead + s. */
  readonly rsHead: number;
}

/** Arguments of {@link gatedDeltaNetInplaceIds}. */
export interface GatedDeltaNetInplaceIdsArguments extends GatedDeltaNetArguments, IdsArguments {
  /** Read and written: `[slots, Hv, S(value), S(key)]`, f32, contiguous. */
  readonly cache: Tensor;
}

/** Inputs and output of both forms of the convolution, one token a sequence. */
export interface SsmConvUpdateArguments {
  /** `[C, K]`, f32, oldest tap first; K is 2..9. */
  readonly weight: Tensor;
  /** `[B, C]`, f32. */
  readonly x: Tensor;
  /** Whether each sum y becomes y·sigmoid(y). */
  readonly silu: boolean;
  /** Written: `[B, C]`, f32. */
  readonly out: Tensor;
}

/** Arguments of {@link ssmConvUpdateInplace}. */
export interface SsmConvUpdateInplaceArguments extends SsmConvUpdateArguments {
  /** Read: `[B, C, K − 1]`, f32, contiguous, oldest first. */
  readonly convStates: Tensor;
  /** Written: as `convStates`, either the same range of memory or one that shares nothing with it. */
  readonly convStateDst: Tensor;
}

/** Arguments of {@link ssmConvUpdateInplaceIds}, whose slots are called cells. */
export interface SsmConvUpdateInplaceIdsArguments extends SsmConvUpdateArguments, IdsArguments {
  /** Read and written: `[cells, C, K − 1]`, f32, contiguous, oldest first. */
  readonly convCache: Tensor;
}

/**
 * ggml's gated delta rule, which updates its states in place: `gatedDelta` with tiled heads, the gate as a logarithm,
 * β given, no normalisation and outputs scaled by 1/√S. All arithmetic and every tensor are f32. With dim for S:
 *
 * ```math
 * \begin{aligned}
 * S' &= e^{g_t} S \\
 * \delta &= \beta_t (v_t - S' k_t) \\
 * S &\leftarrow S' + \delta k_t^\top \\
 * out_t &= \tfrac{1}{\sqrt{dim}} \, S q_t
 * \end{aligned}
 * ```
 *
 * State s of `state` becomes state s of `stateDst`. `q`, `k`, `v` and `out` may be strided views with free token and head
 * strides, whose sequences follow one another: the stride of B is T times that of T.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(gatedDeltaNetInplace({ q, k, v, gate, beta, state, stateDst: state, out }));
 * @see `ggml_gated_delta_net` (ggml, `src/ggml.c` and `src/ggml-cpu/ops.cpp`)
 */
export function gatedDeltaNetInplace(args: GatedDeltaNetInplaceArguments): Op {
  return makeOp("gatedDeltaNetInplace", args);
}

/**
 * {@link gatedDeltaNetInplace} over a cache, in f32: sequence s reads slot ids[s] and writes slot rsHead + s.
 *
 * ```math
 * cache_{rsHead + s} \leftarrow gatedDeltaNet(cache_{ids_s})
 * ```
 *
 * Every read sees the cache as it was before the op, so ids may swap, rotate or fan out, within the written slots or outside.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(gatedDeltaNetInplaceIds({ q, k, v, gate, beta, cache, ids: [1, 0], rsHead: 0, out })); // swap
 * @see `ggml_gated_delta_net` with its state gathered by ids (llama.cpp, `src/models/delta-net-base.cpp`)
 */
export function gatedDeltaNetInplaceIds(args: GatedDeltaNetInplaceIdsArguments): Op {
  return makeOp("gatedDeltaNetInplaceIds", args);
}

/**
 * One token of each sequence through the causal convolution, ggml's way: the taps in ascending order, then optionally
 * SiLU; the state drops its oldest column and takes x as its newest. All f32; `causalConv1d` with one token a sequence.
 *
 * ```math
 * out_c = act\Big(weight_{c,K-1} \, x_c + \sum_{j=0}^{K-2} weight_{c,j} \, state_{c,j}\Big)
 * ```
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(ssmConvUpdateInplace({ convStates, convStateDst: convStates, weight, x, silu: true, out }));
 * @see `ggml_ssm_conv` (ggml, `src/ggml.c` and `src/ggml-cpu/ops.cpp`)
 * @see the state update around it (llama.cpp, `src/models/delta-net-base.cpp`)
 */
export function ssmConvUpdateInplace(args: SsmConvUpdateInplaceArguments): Op {
  return makeOp("ssmConvUpdateInplace", args);
}

/**
 * {@link ssmConvUpdateInplace} over a cache, in f32: sequence s reads cell ids[s] and writes cell rsHead + s.
 *
 * ```math
 * convCache_{rsHead + s} \leftarrow ssmConvUpdate(convCache_{ids_s})
 * ```
 *
 * Every read sees the cache as it was before the op.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(ssmConvUpdateInplaceIds({ convCache, ids: [2, 2], rsHead: 0, weight, x, silu: true, out })); // fan-out
 * @see `ggml_ssm_conv` (ggml, `src/ggml.c` and `src/ggml-cpu/ops.cpp`), with its states gathered by ids
 */
export function ssmConvUpdateInplaceIds(args: SsmConvUpdateInplaceIdsArguments): Op {
  return makeOp("ssmConvUpdateInplaceIds", args);
}
