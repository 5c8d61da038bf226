/** The two targets of encoding: a device's open submission, and a plan. */
import { placeIndices as placeInArena, beginIndices } from "../native/index-arena.ts";
import type { Descriptor } from "../native/descriptor.ts";
import type { Handle } from "../native/handle.ts";
import type { Device } from "./device.ts";
import { encodeOp } from "../ops/op.ts";
import type { Op } from "../ops/op.ts";
import { usable } from "../ops/recorder.ts";
import type { IndexArgument, Participant, PlanStates, Recorder } from "../ops/recorder.ts";
import type { Pins } from "../tensor/pins.ts";
import type { Participants } from "./participants.ts";
import { PlanIndices } from "./plan-indices.ts";
import { byteOffsetOf, isTensor, storageOf } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** Puts a tensor's index data into a descriptor; the native side reads it in place. */
function placeIndexTensor(
  recorder: Recorder,
  descriptor: Descriptor,
  at: number,
  { op, argument, count }: IndexArgument,
  tensor: Tensor<"i32">,
): void {
  usable(recorder.device, op, argument, tensor);
  recorder.keep(op, argument, tensor);
  descriptor.indexBuffer(at, storageOf(tensor).handle, byteOffsetOf(tensor), count);
}

/** Encodes into a device's open submission. Index data is borrowed for the call. */
export class DeviceRecorder implements Recorder {
  readonly device: Device;
  readonly target: Handle;
  readonly #pins: Pins;
  readonly #participants: Participants;

  constructor(device: Device, target: Handle, pins: Pins, participants: Participants) {
    this.device = device;
    this.target = target;
    this.#pins = pins;
    this.#participants = participants;
  }

  get planStates(): undefined {
    return undefined;
  }

  join(participant: Participant): void {
    this.#participants.join(participant);
  }

  encode(op: Op): void {
    encodeOp(op, this);
  }

  beginIndices(count: number): void {
    beginIndices(count);
  }

  placeIndices(descriptor: Descriptor, at: number, index: IndexArgument, data: Int32Array | Tensor<"i32">): void {
    if (isTensor(data)) placeIndexTensor(this, descriptor, at, index, data);
    else descriptor.indexAddress(at, placeInArena(data, index.count), index.count);
  }

  keep(_op: string, _argument: string, tensor: Tensor): void {
    const { owner } = storageOf(tensor);
    if (owner !== undefined) this.#pins.add(owner);
  }
}

/** A tensor that a plan uses, and its argument. */
export interface PlanTensor {
  readonly op: string;
  readonly argument: string;
  readonly tensor: Tensor;
}

/** Encodes into a plan. Index arrays are copied into the plan's own memory, which is refreshed before each replay. */
export class PlanRecorder implements Recorder {
  readonly device: Device;
  readonly target: Handle;
  readonly tensors: PlanTensor[] = [];
  readonly indices: PlanIndices;
  readonly planStates: PlanStates = { placeholder: undefined, uses: [] };

  constructor(device: Device, target: Handle) {
    this.device = device;
    this.target = target;
    this.indices = new PlanIndices(device);
  }

  /** A step ends before any replay, so none takes part in a plan. */
  join(): void {}

  encode(op: Op): void {
    encodeOp(op, this);
  }

  beginIndices(): void {}

  placeIndices(descriptor: Descriptor, at: number, index: IndexArgument, data: Int32Array | Tensor<"i32">): void {
    if (isTensor(data)) {
      placeIndexTensor(this, descriptor, at, index, data);
    } else {
      const { handle, byteOffset } = this.indices.add(index, data);
      descriptor.indexBuffer(at, handle, byteOffset, index.count);
    }
  }

  keep(op: string, argument: string, tensor: Tensor): void {
    this.tensors.push({ op, argument, tensor });
  }
}
