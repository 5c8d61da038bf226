/**
 * Hand-written checks of arguments, for the paths that run once an op. Each names the argument, what was expected and
 * what came. Whatever a caller passes, they end in a value of the stated type or in a typed error.
 */
import { BoundsError, DTypeError, GatedDeltaError, ShapeError, describe } from "./errors.ts";
import type { DType } from "./dtype.ts";
import { isTensor } from "./tensor.ts";
import type { Tensor } from "./tensor.ts";

/** The largest dimension, count or index: all of them cross the boundary as i32 or are compared with one. */
export const largestIndex = 2 ** 31 - 1;

/** An argument of the wrong kind. */
export function invalid(op: string, argument: string, expected: string, value: unknown): GatedDeltaError {
  return new GatedDeltaError("invalid-argument", { op, argument, expected, received: describe(value) });
}

/** The object of named arguments. */
export function asArguments<A extends object>(op: string, value: A): A {
  if (typeof value !== "object" || value === null) throw invalid(op, "", "an object of named arguments", value);
  return value;
}

/** A required tensor. */
export function asTensor(op: string, argument: string, value: unknown): Tensor {
  if (!isTensor(value)) throw invalid(op, argument, "a Tensor", value);
  return value;
}

/** A tensor or undefined. */
export function asOptionalTensor(op: string, argument: string, value: unknown): Tensor | undefined {
  return value === undefined ? undefined : asTensor(op, argument, value);
}

/** Checks that a tensor holds numbers to compute with. */
export function expectFloat(op: string, argument: string, tensor: Tensor): void {
  if (tensor.dtype === "i32") throw new DTypeError({ op, argument, expected: "f32, f16 or bf16", received: "i32" });
}

/** Checks a tensor's dtype: the given one, or the other where there is one. */
export function expectDType(op: string, argument: string, tensor: Tensor, dtype: DType, or: DType = dtype): void {
  if (tensor.dtype === dtype || tensor.dtype === or) return;
  throw new DTypeError({ op, argument, expected: dtype === or ? dtype : `${dtype} or ${or}`, received: tensor.dtype });
}

/** A shape in words: `[tokens, 4, 128]`. */
export function shapeText(shape: readonly (number | string)[]): string {
  return `[${shape.join(", ")}]`;
}

/** Checks a tensor's rank; `layout` names its dimensions. */
export function expectRank(op: string, argument: string, tensor: Tensor, layout: readonly string[]): void {
  if (tensor.shape.length === layout.length) return;
  throw new ShapeError({ op, argument, expected: shapeText(layout), received: shapeText(tensor.shape) });
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

/** Checks that a tensor has no gaps. */
export function expectContiguous(op: string, argument: string, tensor: Tensor): void {
  if (tensor.contiguous) return;
  throw new ShapeError({
    op,
    argument,
    expected: "a contiguous tensor",
    received: `strides ${shapeText(tensor.strides)} for shape ${shapeText(tensor.shape)}`,
  });
}

/** Checks that a tensor's rows have no gaps: its last dimension is contiguous. */
export function expectContiguousRows(op: string, argument: string, tensor: Tensor): void {
  const last = tensor.shape.length - 1;
  if (tensor.strides[last] === 1 || tensor.shape[last]! <= 1) return;
  throw new ShapeError({
    op,
    argument,
    expected: "a last dimension of stride 1",
    received: `strides ${shapeText(tensor.strides)}`,
  });
}

/** The number that a table gives to a name; that of the default when undefined. */
export function asChoice<Table extends Record<string, number>>(
  op: string,
  argument: string,
  value: unknown,
  table: Table,
  byDefault?: keyof Table,
): number {
  const name = value === undefined ? byDefault : value;
  const code: unknown = typeof name === "string" ? table[name] : undefined;
  if (typeof code === "number") return code; // not what a table inherits from Object.prototype
  const names = Object.keys(table).map((known) => JSON.stringify(known));
  throw invalid(op, argument, names.join(" | "), value);
}

/** A number that float32 can hold; the default when undefined. */
export function asFloat32(op: string, argument: string, value: unknown, byDefault: number): number {
  if (value === undefined) return byDefault;
  if (typeof value === "number" && Number.isFinite(Math.fround(value))) return value;
  throw invalid(op, argument, "a finite number within float32's range", value);
}

/** An epsilon: a finite number of at least 0. */
export function asEpsilon(op: string, argument: string, value: unknown, byDefault: number): number {
  const epsilon = asFloat32(op, argument, value, byDefault);
  if (epsilon >= 0) return epsilon;
  throw invalid(op, argument, "a number of at least 0", value);
}

/** An integer within limits. */
export function asInteger(op: string, argument: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isInteger(value)) {
    throw invalid(op, argument, `an integer in ${least}..${most}`, value);
  }
  if (value >= least && value <= most) return value;
  throw new BoundsError({ op, argument, expected: `an integer in ${least}..${most}`, received: describe(value) });
}
