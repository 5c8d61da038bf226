import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link add}. */
export interface AddArguments {
  /** `[tokens, heads, dim]` or `[tokens, dim]`: f32 or the dtype of `b`. */
  readonly a: Tensor;
  /** Shaped as `a`: f32, f16 or bf16. */
  readonly b: Tensor;
  /** Written, shaped as `a`: the dtype of `b` or f32. */
  readonly out: Tensor;
}

/**
 * The sum of two tensors of one shape, such as a layer's output and the residual: a float32 addition, rounded once.
 *
 * ```math
 * out = a + b
 * ```
 *
 * All three may be strided views with free token and head strides. `out` may be `a` or `b` itself, the same elements in
 * the same layout; otherwise it overlaps neither.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(add({ a: residual, b: out, out: residual }));
 * @see He, Zhang, Ren, Sun, [Deep Residual Learning for Image Recognition](https://arxiv.org/abs/1512.03385), 2015, for residual connections
 */
export function add(args: AddArguments): Op {
  return makeOp("add", args);
}
