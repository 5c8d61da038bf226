/** What an op needs of the device or plan that it is encoded into. */
import { DisposedError, GatedDeltaError } from "../errors.ts";
import type { Device } from "../device/device.ts";
import type { Descriptor } from "../native/descriptor.ts";
import type { Handle } from "../native/handle.ts";
import { wordsOf } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { readIndices } from "./indices.ts";
import type { IndexData, Indices } from "./indices.ts";
import type { OpKind } from "./op-kind.ts";
import type { Values } from "./read-arguments.ts";

/** A device's open submission, or a plan. */
export interface Recorder {
  readonly device: Device;
  readonly target: Handle;
  /** Called once an op, before the first index is placed, with the number of all its elements. */
  beginIndices(count: number): void;
  /** Puts index data into a descriptor: `data` is what `source` held a moment ago. */
  placeIndices(descriptor: Descriptor, at: number, argument: IndexArgument, data: Int32Array | Tensor<"i32">): void;
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

const noIndices: readonly (IndexData | undefined)[] = [];

/** Packs what was read of an op's arguments and hands it to the native side. */
export function encodeValues(recorder: Recorder, { name, numbers, tensors, indices, descriptor }: OpKind, values: Values): void {
  let count = 0;
  let data = noIndices;
  if (indices.length > 0) {
    data = indices.map((place, i) => readIndices(name, place.name, values.indices[i]));
    for (const one of data) count += one?.count ?? 0;
  }
  // From here on nothing of the caller's runs: the descriptor and the index memory are shared by all calls.
  for (let i = 0; i < numbers.length; i++) descriptor.number(numbers[i]!.at, values.numbers[i]!);
  for (let i = 0; i < tensors.length; i++) {
    const tensor = values.tensors[i];
    const place = tensors[i]!;
    if (tensor === undefined) {
      descriptor.noTensor(place.at);
      continue;
    }
    usable(recorder.device, name, place.name, tensor);
    recorder.keep(name, place.name, tensor);
    descriptor.tensor(place.at, wordsOf(tensor));
  }
  if (indices.length > 0) recorder.beginIndices(count);
  for (let i = 0; i < data.length; i++) {
    const one = data[i];
    if (one === undefined) descriptor.noIndex(indices[i]!.at);
    else recorder.placeIndices(descriptor, indices[i]!.at, one, one.elements);
  }
  descriptor.encode(recorder.target, name);
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
