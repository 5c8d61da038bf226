import type { Algorithm } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { LayerStates } from "./layer-states.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import type { DeltaRecords, GateTensors, RecurrenceOptions } from "./recurrence-arguments.ts";
import type { KeptStateArguments, RaggedArguments } from "./state-arguments.ts";

/** Arguments of {@link gatedDelta}. Dimensions are called tokens, keyHeads, valueHeads, keyDim, valueDim and slots. */
export interface GatedDeltaArguments extends RecurrenceOptions, GateTensors, RaggedArguments, KeptStateArguments {
  /** `[tokens, keyHeads, keyDim]`, f32, f16 or bf16: the activation dtype. keyDim is a multiple of 8 in 8..256. */
  readonly query: Tensor;
  /** `[tokens, keyHeads, keyDim]`, the activation dtype. */
  readonly key: Tensor;
  /** `[tokens, valueHeads, valueDim]`, the activation dtype. valueDim has keyDim's limits; valueHeads is a multiple of keyHeads. */
  readonly value: Tensor;
  /** Written: `[tokens, valueHeads, valueDim]`, the activation dtype or f32. */
  readonly out: Tensor;
  /**
   * Read and written in place: `[slots, valueHeads, valueDim, keyDim]`, f32, f16 or bf16, contiguous. Without it every
   * sequence starts from zero and drops its final state.
   */
  readonly state?: Tensor | undefined;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state`, the slots and kept states. */
  readonly states?: LayerStates | undefined;
  /**
   * Written: the records from which {@link commitGatedDelta} advances the states by the accepted tokens. Not with the
   * chunked algorithm. @default none
   */
  readonly records?: DeltaRecords | undefined;
  /**
   * `chunked` is faster over many tokens and has its own tolerance; `auto` never chooses it. With f32 states, calls that
   * each end at a multiple of 16 tokens of a sequence give the bits of one call. Checkpoints and snapshots
   * change no other bit. Only the CPU has this algorithm.
   * @default "auto"
   */
  readonly algorithm?: Algorithm | undefined;
}

/**
 * The gated delta rule over a ragged batch. For each sequence and value head, with state S of valueDim rows of keyDim
 * and for each token in order:
 *
 * ```math
 * \begin{aligned}
 * S_t' &= a_t S_{t-1} \\
 * \delta_t &= \beta_t \, (v_t - S_t' k_t) \\
 * S_t &= S_t' + \delta_t k_t^\top \\
 * out_t &= S_t q_t
 * \end{aligned}
 * ```
 *
 * with k and q normalised as `qkNorm` says and q scaled. Arithmetic is float32; each output is rounded once, when it is
 * stored.
 *
 * `query`, `key`, `value` and `out` may be strided views with free token and head strides, such as parts of one packed
 * convolution output; strides and offsets are multiples of 8 elements. `out` must not overlap anything.
 *
 * Every read sees the pool as it was before the op, so slots may be swapped, rotated or fanned out.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(gatedDelta({ query, key, value, gate, beta, state, out, gateForm: "log", qkNorm: "l2" }));
 * device.wait();
 * @see Yang, Kautz, Hatamizadeh, [Gated Delta Networks: Improving Mamba2 with Delta Rule](https://arxiv.org/abs/2412.06464), 2024
 * @see Kimi Team, [Kimi Linear: An Expressive, Efficient Attention Architecture](https://arxiv.org/abs/2510.26692), 2025, for gates per key dimension
 * @see `gated_delta_update` (mlx-lm, `mlx_lm/models/gated_delta.py`), whose layouts these are
 */
export function gatedDelta(args: GatedDeltaArguments): Op {
  return makeOp("gatedDelta", args);
}
