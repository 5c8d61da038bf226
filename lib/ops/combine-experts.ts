import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link combineExperts}: each tensor except `weights` is f32, or of one 16-bit dtype that all other tensors share. */
export interface CombineExpertsArguments {
  /** `[tokens, k, dim]`, f32, f16 or bf16: the output of each token's experts. */
  readonly experts: Tensor;
  /** `[tokens, k]`, f32, contiguous. */
  readonly weights: Tensor;
  /** `[tokens, dim]`, f32, f16 or bf16: the output of the expert that every token uses. @default none */
  readonly shared?: Tensor | undefined;
  /** `[tokens, 1]`, f32, f16 or bf16: the logits of the shared expert's gate. Only with `shared`. @default none: `shared` is unscaled */
  readonly sharedGate?: Tensor | undefined;
  /** `[tokens, dim]`, f32, f16 or bf16: added last. @default none */
  readonly residual?: Tensor | undefined;
  /** Written: `[tokens, dim]`, f32, f16 or bf16. */
  readonly out: Tensor;
}

/**
 * The outputs of each token's experts as one row, in float32 and rounded once:
 *
 * ```math
 * out_t = \Big(\Big(\sum_{j = 0}^{k - 1} weights_{t,j} \, experts_{t,j}\Big) + \sigma(sharedGate_t) \, shared_t\Big) + residual_t
 * ```
 *
 * The terms are added in this order, whatever the number of tokens; omitted arguments are left out.
 *
 * All but `weights` may be strided views with free token and rank strides. `out` may be the residual itself, the same
 * elements in the same layout; otherwise it must not overlap anything.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes or memory do not fit. Nothing is written then.
 * @example
 * device.run(combineExperts({ experts, weights, shared, sharedGate, residual, out: residual }));
 * @see `Qwen3_5MoeSparseMoeBlock` (transformers, `modeling_qwen3_5_moe.py`)
 */
export function combineExperts(args: CombineExpertsArguments): Op {
  return makeOp("combineExperts", args);
}
