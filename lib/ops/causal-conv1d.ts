import type { ConvActivation } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { LayerStates } from "./layer-states.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import type { KeptStateArguments, RaggedArguments } from "./state-arguments.ts";

/** Arguments of {@link causalConv1d}. Dimensions are called tokens, channels, width and slots. */
export interface CausalConv1dArguments extends RaggedArguments, KeptStateArguments {
  /** `[tokens, channels]`, f32, f16 or bf16: the activation dtype. */
  readonly x: Tensor;
  /** `[channels, width]`, any float dtype, contiguous, oldest tap first. width is 2..9. */
  readonly weight: Tensor;
  /** `[channels]`, any float dtype. @default none */
  readonly bias?: Tensor | undefined;
  /**
   * Read and written in place: `[slots, channels, width − 1]`, the activation dtype or f32, contiguous, oldest first.
   * Without it every sequence starts from zeros and drops its final state.
   */
  readonly state?: Tensor | undefined;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state`, the slots and kept states. */
  readonly states?: LayerStates | undefined;
  /** Written: `[tokens, channels]`, the activation dtype or f32. */
  readonly out: Tensor;
  /** Applied to each sum. @default "silu" */
  readonly activation?: ConvActivation | undefined;
}

/**
 * Causal depthwise convolution over time: for each sequence, token t and channel c,
 *
 * ```math
 * out_{t,c} = act\Big(bias_c + \sum_{j=0}^{width-1} weight_{c,j} \, x_{t-width+1+j,\,c}\Big)
 * ```
 *
 * where rows before the sequence's first come from its state. The new state is the last width − 1 rows of
 * (old state ‖ x), however short the sequence. Sums are float32; `out` is rounded once.
 *
 * `x` and `out` may be strided views with a free token stride; `out` must not overlap anything. Every read sees the pool
 * as it was before the op.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(causalConv1d({ x, weight, state, out })); // one sequence, slot 0, SiLU
 * @see Gu, Dao, [Mamba: Linear-Time Sequence Modeling with Selective State Spaces](https://arxiv.org/abs/2312.00752), 2023
 * @see `causal_conv1d_fn` as Qwen3-Next uses it (transformers, `modeling_qwen3_next.py`)
 */
export function causalConv1d(args: CausalConv1dArguments): Op {
  return makeOp("causalConv1d", args);
}
