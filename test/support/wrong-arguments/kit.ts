/** Building blocks for the lists of wrong arguments. */
import type { DType, Device, ErrorCode, Tensor } from "../../../lib/index.ts";
import type { Arguments } from "../arguments.ts";

/** A change of sound arguments, and what the error must say. */
export type Wrong = readonly [
  change: Arguments | ((sound: Arguments) => Arguments),
  code: ErrorCode,
  argument: string | undefined,
];

/** A strided stand-in for a tensor: every second element of a larger one. */
export function gapped(like: unknown): Tensor {
  const { shape, strides, dtype } = like as Tensor;
  const rank = shape.length;
  const wide = (like as Tensor).device.tensor(dtype, [...shape.slice(0, rank - 1), shape[rank - 1]! * 2]);
  return wide.view({ shape, strides: strides.map((stride) => stride * 2) });
}

/** Functions that make tensors of a device. */
export function makers(device: Device) {
  const tensor = (shape: readonly number[], dtype: DType = "f32") => device.tensor(dtype, shape);
  const overlapping = (parts: (both: Tensor) => Arguments) => parts(tensor([2000]));
  return { tensor, overlapping };
}
