/**
 * Files of states: for each layer `layers.N.state` `[states, valueHeads, valueDim, keyDim]` and `layers.N.conv`
 * `[states, convChannels, convWidth − 1]` (if the pool holds them). The metadata hold the model's shape.
 */
import type { CheckedFormat } from "../../checkpoint/checked-file.ts";
import { dtypes, encode, toFloat32 } from "../../tensor/dtype.ts";
import type { ArrayOfDType, FloatDType } from "../../tensor/dtype.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { kindsOf, rowShape } from "../pool-shape.ts";
import type { PoolShape, StateKind } from "../pool-shape.ts";

/** The format of these files. */
export const stateFormat: CheckedFormat = { name: "gated-delta-states", version: "1", noun: "a file of states", entries: "first" };

/** Names of the shape's sizes in the metadata. */
export const sizeKeys = {
  layers: "layers",
  keyHeads: "key_heads",
  valueHeads: "value_heads",
  keyDim: "key_dim",
  valueDim: "value_dim",
  convWidth: "conv_width",
  convChannels: "conv_channels",
} as const satisfies Partial<Record<keyof PoolShape, string>>;

/** One tensor of a file. */
export interface StateTensor {
  readonly name: string;
  readonly layer: number;
  readonly kind: StateKind;
  readonly shape: readonly number[];
}

/** The tensors of a file of `count` states, in the order of its checksum. */
export function tensorsOf(shape: PoolShape, count: number): StateTensor[] {
  return Array.from({ length: shape.layers }, (_, layer) => layer).flatMap((layer) =>
    kindsOf(shape).map((kind) => {
      return { name: `layers.${layer}.${kind}`, layer, kind, shape: [count, ...rowShape(shape, kind)] };
    }),
  );
}

/** The metadata of a file of `count` states, in addition to those of every format. */
export function metadataOf(shape: PoolShape, count: number): Record<string, string> {
  const metadata: Record<string, string> = { states: String(count) };
  for (const [name, key] of Object.entries(sizeKeys)) metadata[key] = String(shape[name as keyof typeof sizeKeys]);
  return { ...metadata, state_dtype: shape.stateDtype, conv_dtype: shape.convDtype };
}

/** Any dtype of a state. */
export type FloatElements = ArrayOfDType[FloatDType];

/** The elements of a slot of a contiguous pool; zeros for slot −1. */
export function rowOf(tensor: Tensor, slot: number): FloatElements {
  const dtype = tensor.dtype as FloatDType;
  const length = tensor.size / tensor.shape[0]!;
  if (slot < 0) return dtypes[dtype].create(length);
  return (tensor.data as FloatElements).subarray(slot * length, (slot + 1) * length) as FloatElements;
}

/** Elements in another dtype, each rounded once; the same array if the dtype is the same. */
export function converted(elements: FloatElements, from: FloatDType, to: FloatDType): FloatElements {
  return from === to ? elements : encode(to, toFloat32(from, elements as never));
}
