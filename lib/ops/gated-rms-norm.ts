import { asArguments, asChoice, asEpsilon } from "../arguments/checks.ts";
import {
  asTensor,
  expectContiguous,
  expectContiguousRows,
  expectDType,
  expectFloat,
  expectShape,
  shapeText,
} from "../tensor/expect.ts";
import { ShapeError } from "../errors.ts";
import { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { normActivations, normOrders } from "./option-names.ts";
import type { NormActivation, NormOrder } from "./option-names.ts";
import { placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

const op = "gatedRmsNorm";

/** Arguments of {@link gatedRmsNorm}. Dimensions are called tokens, heads and dim. */
export interface GatedRmsNormArguments {
  /** `[tokens, heads, dim]` or `[tokens, dim]`: f32 or the dtype of `z`. */
  readonly x: Tensor;
  /** The gate, shaped as `x`: f32, f16 or bf16. */
  readonly z: Tensor;
  /** `[dim]`, any float dtype. */
  readonly weight: Tensor;
  /** Written, shaped as `x`: the dtype of `z` or f32. */
  readonly out: Tensor;
  /** Added to the mean square. @default 1e-6 */
  readonly eps?: number | undefined;
  /** Applied to `z`. @default "silu" */
  readonly activation?: NormActivation | undefined;
  /** @default "norm-then-gate" */
  readonly order?: NormOrder | undefined;
}

/**
 * RMS norm over the last dimension, gated by z. With n(x) = x · rsqrt(mean x² + eps), `norm-then-gate` is
 * weight · n(x) · act(z) (Qwen3-Next's `Qwen3NextRMSNormGated`) and `gate-then-norm` is weight · n(x · act(z))
 * (Mamba-2). Arithmetic is float32; `out` is rounded once.
 *
 * `x`, `z` and `out` may be strided views with free token and head strides; `out` overlaps nothing. Rows may have
 * any length.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other; nothing is written then.
 * @example
 * device.run(gatedRmsNorm({ x: attention, z, weight, out, activation: "sigmoid" }));
 */
export function gatedRmsNorm(args: GatedRmsNormArguments): Op {
  return makeOp(op, args, read, encode);
}

type Values = ReturnType<typeof read>;

const flatLayout = ["tokens", "dim"];
const headLayout = ["tokens", "heads", "dim"];

function read(args: GatedRmsNormArguments) {
  const { x: givenX, z: givenZ, weight: givenWeight, out: givenOut, eps, activation, order } = asArguments(op, args);
  const x = asTensor(op, "x", givenX);
  const rank = x.shape.length;
  if (rank !== 2 && rank !== 3) {
    const expected = "[tokens, heads, dim] or [tokens, dim]";
    throw new ShapeError({ op, argument: "x", expected, received: shapeText(x.shape) });
  }
  const layout = rank === 2 ? flatLayout : headLayout;
  const z = asTensor(op, "z", givenZ);
  expectShape(op, "z", z, x.shape, layout);
  expectFloat(op, "z", z);
  expectDType(op, "x", x, z.dtype, "f32");
  const out = asTensor(op, "out", givenOut);
  expectShape(op, "out", out, x.shape, layout);
  expectDType(op, "out", out, z.dtype, "f32");
  expectContiguousRows(op, "x", x);
  expectContiguousRows(op, "z", z);
  expectContiguousRows(op, "out", out);
  const dim = x.shape[rank - 1]!;
  const weight = asTensor(op, "weight", givenWeight);
  expectShape(op, "weight", weight, [dim], ["dim"]);
  expectFloat(op, "weight", weight);
  expectContiguous(op, "weight", weight);
  return {
    tokens: x.shape[0]!,
    heads: rank === 2 ? 1 : x.shape[1]!,
    dim,
    eps: asEpsilon(op, "eps", eps, 1e-6),
    activation: asChoice(op, "activation", activation, normActivations, "silu"),
    order: asChoice(op, "order", order, normOrders, "norm-then-gate"),
    x,
    z,
    weight,
    out,
  };
}

const descriptor = new Descriptor("gd_gated_rms_norm");

function encode(recorder: Recorder, values: Values): void {
  descriptor.u32("tokens", values.tokens);
  descriptor.u32("heads", values.heads);
  descriptor.u32("dim", values.dim);
  descriptor.u32("activation", values.activation);
  descriptor.u32("order", values.order);
  descriptor.f32("eps", values.eps);
  placeTensor(recorder, descriptor, "x", op, "x", values.x);
  placeTensor(recorder, descriptor, "z", op, "z", values.z);
  placeTensor(recorder, descriptor, "weight", op, "weight", values.weight);
  placeTensor(recorder, descriptor, "out", op, "out", values.out);
  descriptor.encode(recorder.target, op);
}
