/**
 * Files of states: safetensors with, for each layer, `layers.N.state` `[states, valueHeads, valueDim, keyDim]` and
 * `layers.N.conv` `[states, convChannels, convWidth − 1]` (of pools that hold them). The metadata hold the model's
 * shape and a SHA-256 over the metadata, the header and the data.
 */
import { createHash } from "node:crypto";
import type { Hash } from "node:crypto";
import { fileDTypes } from "../../checkpoint/safetensors.ts";
import { dtypes, encode, toFloat32 } from "../../tensor/dtype.ts";
import type { ArrayOfDType, FloatDType } from "../../tensor/dtype.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { dtypeOf, kindsOf, rowShape } from "../pool-shape.ts";
import type { PoolShape, StateKind } from "../pool-shape.ts";

/** What the metadata's `format` and `version` are. */
export const formatName = "gated-delta-states";
export const formatVersion = "1";

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

/** The key of the checksum, the only entry that it does not cover. */
export const checksumKey = "sha256";

/** One tensor of a file, in the order of the checksum. */
export interface StateTensor {
  readonly name: string;
  readonly layer: number;
  readonly kind: StateKind;
  readonly shape: readonly number[];
}

/** The tensors of a file of `count` states. */
export function tensorsOf(shape: PoolShape, count: number): StateTensor[] {
  return Array.from({ length: shape.layers }, (_, layer) => layer).flatMap((layer) =>
    kindsOf(shape).map((kind) => {
      return { name: `layers.${layer}.${kind}`, layer, kind, shape: [count, ...rowShape(shape, kind)] };
    }),
  );
}

/** The metadata of a file of `count` states, the checksum apart. */
export function metadataOf(shape: PoolShape, count: number): Record<string, string> {
  const metadata: Record<string, string> = { format: formatName, version: formatVersion, states: String(count) };
  for (const [name, key] of Object.entries(sizeKeys)) metadata[key] = String(shape[name as keyof typeof sizeKeys]);
  return { ...metadata, state_dtype: shape.stateDtype, conv_dtype: shape.convDtype };
}

/** A hash of the metadata and the tensors' names, dtypes and shapes; their bytes come next, in the order of {@link tensorsOf}. */
export function beginChecksum(metadata: Readonly<Record<string, string>>, shape: PoolShape, count: number): Hash {
  const entries = Object.entries(metadata).filter(([key]) => key !== checksumKey).sort(([a], [b]) => (a < b ? -1 : 1));
  const tensors = tensorsOf(shape, count).map(({ name, kind, shape: dims }) => [name, fileDTypes[dtypeOf(shape, kind)], dims]);
  return createHash("sha256").update(JSON.stringify([entries, tensors]));
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

/** Elements in another dtype, each rounded once; the same array where the dtype stays. */
export function converted(elements: FloatElements, from: FloatDType, to: FloatDType): FloatElements {
  return from === to ? elements : encode(to, toFloat32(from, elements as never));
}

/** The bytes of an array, in place. */
export function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
