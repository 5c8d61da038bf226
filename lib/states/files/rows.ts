/** One slot of a pool's tensor, as elements and as bytes, in place. */
import { dtypes, encode, toFloat32 } from "../../tensor/dtype.ts";
import type { ArrayOfDType, FloatDType } from "../../tensor/dtype.ts";
import type { SafetensorsDType } from "../../safetensors/safetensors.ts";
import type { Tensor } from "../../tensor/tensor.ts";

/** How safetensors spells our dtypes. */
export const fileDTypes = { f32: "F32", f16: "F16", bf16: "BF16" } as const satisfies Record<FloatDType, SafetensorsDType>;

/** Any dtype of a state. */
export type FloatElements = ArrayOfDType[FloatDType];

/** The elements of a slot of a contiguous pool; zeros for slot −1. */
export function rowOf(tensor: Tensor, slot: number): FloatElements {
  const dtype = tensor.dtype as FloatDType;
  const length = tensor.size / tensor.shape[0]!;
  if (slot < 0) return dtypes[dtype].create(length);
  return (tensor.data as FloatElements).subarray(slot * length, (slot + 1) * length) as FloatElements;
}

/** Elements in another dtype, each rounded once; the same array where the dtype stays. */
export function converted(elements: FloatElements, from: FloatDType, to: FloatDType): FloatElements {
  return from === to ? elements : encode(to, toFloat32(from, elements as never));
}

/** The bytes of an array, in place. */
export function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
