/** Ops on the elements of two tensors of one shape. */
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
 * the same layout; otherwise it must overlap neither.
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

/** Arguments of {@link siluMul}. */
export interface SiluMulArguments {
  /** `[tokens, heads, dim]` or `[tokens, dim]`: f32 or the dtype of `up`. */
  readonly gate: Tensor;
  /** Shaped as `gate`: f32, f16 or bf16. */
  readonly up: Tensor;
  /** Written, shaped as `gate`: the dtype of `up` or f32. */
  readonly out: Tensor;
}

/**
 * A gated linear unit's product, in float32 and rounded once:
 *
 * ```math
 * out = silu(gate) \cdot up, \qquad silu(x) = x \cdot \sigma(x) = \frac{x}{1 + e^{-x}}
 * ```
 *
 * All three may be strided views with free token and head strides. `out` may be `gate` or `up` itself, the same elements
 * in the same layout; otherwise it must overlap neither.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(siluMul({ gate, up, out: gate }));
 * @see Shazeer, [GLU Variants Improve Transformer](https://arxiv.org/abs/2002.05202), 2020 (SwiGLU)
 */
export function siluMul(args: SiluMulArguments): Op {
  return makeOp("siluMul", args);
}
