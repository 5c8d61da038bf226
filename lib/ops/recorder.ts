/** What an op needs of the device or plan that it is encoded into. */
import { DisposedError, GatedDeltaError } from "../errors.ts";
import type { Device } from "../device/device.ts";
import type { Descriptor, FieldOf, OpStruct } from "../native/descriptor.ts";
import type { Handle } from "../native/handle.ts";
import { byteOffsetOf, storageOf } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { IndexData, Indices } from "./indices.ts";

/** A device's open submission, or a plan. */
export interface Recorder {
  readonly device: Device;
  readonly target: Handle;
  /** Called once an op, before the first index is placed, with the number of all its elements. */
  beginIndices(count: number): void;
  /** Puts index data into a descriptor: `data` is what `source` held a moment ago. */
  placeIndices<S extends OpStruct>(
    descriptor: Descriptor<S>,
    field: FieldOf<S, "gd_index">,
    argument: IndexArgument,
    data: Int32Array | Tensor<"i32">,
  ): void;
  /** Called for every tensor that an op uses. */
  keep(op: string, argument: string, tensor: Tensor): void;
}

/** One index argument of an op that is being encoded. */
export interface IndexArgument {
  readonly op: string;
  readonly argument: string;
  readonly source: Indices;
  readonly count: number;
}

/** Puts a tensor into a descriptor, or its absence. */
export function placeTensor<S extends OpStruct>(
  recorder: Recorder,
  descriptor: Descriptor<S>,
  field: FieldOf<S, "gd_tensor">,
  op: string,
  argument: string,
  tensor: Tensor | undefined,
): void {
  if (tensor === undefined) {
    descriptor.noTensor(field);
    return;
  }
  usable(recorder.device, op, argument, tensor);
  recorder.keep(op, argument, tensor);
  const { strides } = tensor;
  const rank = strides.length;
  descriptor.tensor(
    field,
    storageOf(tensor).handle,
    byteOffsetOf(tensor),
    tensor.dtype,
    tensor.contiguous || rank < 2 ? 0 : strides[0]!,
    tensor.contiguous || rank < 3 ? 0 : strides[1]!,
  );
}

/** Checks that a tensor can be used by ops of a device. */
export function usable(device: Device, op: string, argument: string, tensor: Tensor): void {
  if (tensor.disposed) {
    throw new DisposedError({ op, argument, expected: "a tensor that is not disposed", received: "a disposed one" });
  }
  if (tensor.device !== device) {
    const expected = "a tensor of the device that runs the op";
    throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: "one of another device" });
  }
}

/** Puts all index arguments of an op into its descriptor. */
export function placeIndices<S extends OpStruct>(
  recorder: Recorder,
  descriptor: Descriptor<S>,
  indices: readonly (readonly [FieldOf<S, "gd_index">, IndexData | undefined])[],
): void {
  let count = 0;
  for (const [, data] of indices) count += data?.count ?? 0;
  recorder.beginIndices(count);
  for (const [field, data] of indices) {
    if (data === undefined) descriptor.noIndex(field);
    else recorder.placeIndices(descriptor, field, data, data.elements);
  }
}
