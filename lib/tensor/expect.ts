/** Checks of tensor arguments; each error names the argument, the expected value and the received one. */
import { invalid } from "../arguments/checks.ts";
import { DTypeError, ShapeError } from "../errors.ts";
import type { DType } from "./dtype.ts";
import { isTensor } from "./tensor.ts";
import type { Tensor } from "./tensor.ts";

/** A required tensor. */
export function asTensor(op: string, argument: string, value: unknown): Tensor {
  if (!isTensor(value)) throw invalid(op, argument, "a Tensor", value);
  return value;
}

/** Checks that a tensor's dtype is `dtype`, or `or` if given. */
export function expectDType(op: string, argument: string, tensor: Tensor, dtype: DType, or: DType = dtype): void {
  if (tensor.dtype === dtype || tensor.dtype === or) return;
  throw new DTypeError({ op, argument, expected: dtype === or ? dtype : `${dtype} or ${or}`, received: tensor.dtype });
}

/** A shape as text: `[tokens, 4, 128]`. */
export function shapeText(shape: readonly (number | string)[]): string {
  return `[${shape.join(", ")}]`;
}

/** Checks a tensor's shape; `layout` names the dimensions for the message. */
export function expectShape(
  op: string,
  argument: string,
  tensor: Tensor,
  shape: readonly number[],
  layout: readonly string[],
): void {
  const got = tensor.shape;
  let axis = 0;
  while (axis < shape.length && got[axis] === shape[axis]) axis++;
  if (axis === shape.length && axis === got.length) return;
  const expected = `${shapeText(layout)} = ${shapeText(shape)}`;
  throw new ShapeError({ op, argument, expected, received: shapeText(got) });
}
