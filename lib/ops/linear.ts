import { asArguments } from "../arguments/checks.ts";
import {
  asTensor,
  expectContiguous,
  expectContiguousRows,
  expectDType,
  expectFloat,
  expectRank,
  expectShape,
} from "../tensor/expect.ts";
import { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

const op = "linear";

/** Arguments of {@link linear}. Dimensions are called rows, inFeatures and outFeatures. */
export interface LinearArguments {
  /** `[rows, inFeatures]`, f32, f16 or bf16. */
  readonly x: Tensor;
  /** `[outFeatures, inFeatures]`, any float dtype, contiguous. */
  readonly weight: Tensor;
  /** Written: `[rows, outFeatures]`, the dtype of `x` or f32. */
  readonly out: Tensor;
}

/**
 * A plain projection: out[r, o] = Σᵢ x[r, i] · weight[o, i], accumulated in float32 and rounded once.
 *
 * The order of the sum depends on inFeatures only, so a row has the same bits in any batch. That makes this kernel
 * simple rather than fast; bring quantised or tuned products of your own where speed matters.
 *
 * `x` and `out` may be strided views with a free row stride; `out` overlaps nothing.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other; nothing is written then.
 */
export function linear(args: LinearArguments): Op {
  return makeOp(op, args, read, encode);
}

type Values = ReturnType<typeof read>;

function read(args: LinearArguments) {
  const { x: givenX, weight: givenWeight, out: givenOut } = asArguments(op, args);
  const x = asTensor(op, "x", givenX);
  expectRank(op, "x", x, ["rows", "inFeatures"]);
  expectFloat(op, "x", x);
  expectContiguousRows(op, "x", x);
  const [rows, inFeatures] = x.shape as [number, number];
  const weight = asTensor(op, "weight", givenWeight);
  expectRank(op, "weight", weight, ["outFeatures", "inFeatures"]);
  const outFeatures = weight.shape[0]!;
  expectShape(op, "weight", weight, [outFeatures, inFeatures], ["outFeatures", "inFeatures"]);
  expectFloat(op, "weight", weight);
  expectContiguous(op, "weight", weight);
  const out = asTensor(op, "out", givenOut);
  expectShape(op, "out", out, [rows, outFeatures], ["rows", "outFeatures"]);
  expectDType(op, "out", out, x.dtype, "f32");
  expectContiguousRows(op, "out", out);
  return { rows, inFeatures, outFeatures, x, weight, out };
}

const descriptor = new Descriptor("gd_linear");

function encode(recorder: Recorder, values: Values): void {
  descriptor.u32("rows", values.rows);
  descriptor.u32("in_features", values.inFeatures);
  descriptor.u32("out_features", values.outFeatures);
  placeTensor(recorder, descriptor, "x", op, "x", values.x);
  placeTensor(recorder, descriptor, "weight", op, "weight", values.weight);
  placeTensor(recorder, descriptor, "out", op, "out", values.out);
  descriptor.encode(recorder.target, op);
}
