import type { ConvActivation, NormActivation, NormOrder } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { LayerStates } from "./layer-states.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import type { GateTensors, RecurrenceOptions } from "./recurrence-arguments.ts";
import type { RaggedArguments } from "./state-arguments.ts";

/** Arguments of {@link gatedDeltaStep}: those of its parts, with one token per sequence. The slots apply to both pools. */
export interface GatedDeltaStepArguments extends RecurrenceOptions, GateTensors, Omit<RaggedArguments, "cuSeqlens"> {
  /**
   * `[sequences, channels]`, f32, f16 or bf16: the activation dtype. channels = 2·keyHeads·keyDim +
   * valueHeads·valueDim, laid out query ‖ key ‖ value.
   */
  readonly x: Tensor;
  /** Number of key heads, which the shape of `x` does not determine. */
  readonly keyHeads: number;
  /** `[channels, width]`, any float dtype, contiguous. width is 2..9. */
  readonly convWeight: Tensor;
  /** `[channels]`, any float dtype. @default none */
  readonly convBias?: Tensor | undefined;
  /** Read and written in place: `[slots, channels, width − 1]`, the activation dtype or f32; given exactly when `state` is. */
  readonly convState?: Tensor | undefined;
  /**
   * Read and written in place: `[slots, valueHeads, valueDim, keyDim]`, f32, f16 or bf16, contiguous. Without it every
   * sequence starts from zero and drops its final state.
   */
  readonly state?: Tensor | undefined;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state`, `convState` and the slots. */
  readonly states?: LayerStates | undefined;
  /** `[sequences, valueHeads, valueDim]`, the activation dtype: the norm's gate. */
  readonly z: Tensor;
  /** `[valueDim]`, any float dtype. */
  readonly normWeight: Tensor;
  /** Written: `[sequences, valueHeads, valueDim]`, the activation dtype or f32. */
  readonly out: Tensor;
  /** Applied to each sum of the convolution. @default "silu" */
  readonly convActivation?: ConvActivation | undefined;
  /** Applied to `z`. @default "silu" */
  readonly normActivation?: NormActivation | undefined;
  /** Whether the norm or the product with `act(z)` comes first. @default "norm-then-gate" */
  readonly normOrder?: NormOrder | undefined;
  /** Epsilon of the gated norm. @default 1e-6 */
  readonly normEps?: number | undefined;
}

/**
 * One decode token of each sequence through the whole mixer core at once: {@link causalConv1d}, the gates, query and
 * key norm, {@link gatedDelta} and {@link gatedRmsNorm}, with the bits of that chain of ops. The convolution's output
 * is rounded to the activation dtype, as in the chain; nothing else is rounded before the final store. With the functions
 * of these ops:
 *
 * ```math
 * \begin{aligned}
 * q \,\|\, k \,\|\, v &= causalConv1d(x) \\
 * o &= gatedDelta(q, k, v, gate, beta) \\
 * out &= gatedRmsNorm(o, z)
 * \end{aligned}
 * ```
 *
 * If read and write slots are equal, the op is one dispatch and moves each state once.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(gatedDeltaStep({
 *   x, keyHeads: 16, convWeight, convState, gate: a, beta: b, aLog, dtBias, state,
 *   z, normWeight, out, gateForm: "raw", betaForm: "sigmoid", qkNorm: "l2", readSlots: [0, 2], writeSlots: [0, 2],
 * }));
 * @see `Qwen3NextGatedDeltaNet.forward` without its projections (transformers, `modeling_qwen3_next.py`)
 * @see Yang, Kautz, Hatamizadeh, [Gated Delta Networks: Improving Mamba2 with Delta Rule](https://arxiv.org/abs/2412.06464), 2024
 */
export function gatedDeltaStep(args: GatedDeltaStepArguments): Op {
  return makeOp("gatedDeltaStep", args);
}
