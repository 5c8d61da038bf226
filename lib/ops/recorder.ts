/** What an op needs of the device or plan that it is encoded into. */
import { DisposedError, GatedDeltaError } from "../errors.ts";
import type { Device } from "../device/device.ts";
import type { Descriptor, FieldOf, OpStruct } from "../native/descriptor.ts";
import type { Handle } from "../native/handle.ts";
import { byteOffsetOf, storageOf } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { IndexData, Indices } from "./indices.ts";
import type { BoundStates, StateKind } from "./layer-states.ts";

/** Who must know what becomes of the submission that its ops are in: a step or draft of a pool. */
export interface Participant {
  /** Called before the submission is committed. Throws where it must not be. */
  beforeCommit(op: string): void;
  /** The submission was committed. */
  committed(ticket: number): void;
  /** What was encoded was dropped. */
  discarded(): void;
  /** A committed submission has ended, with or without a failure. */
  settled(failure: Error | undefined): void;
}

/** A layer's states that one op of a plan writes. */
export interface LayerUse {
  readonly layer: number;
  readonly kinds: readonly StateKind[];
}

/** What stands in a plan for the step of each of its replays. */
export interface Placeholder {
  /**
   * Puts a step's slots where the plan reads them, after checking that it can write everything in `uses`.
   *
   * @returns the step; a check that it is still open; and a function that notes that a replay has written all of `uses`.
   */
  enter(op: string, step: unknown, uses: readonly LayerUse[]): { readonly participant: Participant; expectOpen(): void; wrote(): void };
}

/** The states of a plan: what stands for the step of each replay, and what the ops write of it. */
export interface PlanStates {
  placeholder: Placeholder | undefined;
  readonly uses: LayerUse[];
}

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
  /** What a plan's ops write of a pool's states; undefined for a device's open submission. */
  readonly planStates: PlanStates | undefined;
  /** Notes that a step or draft has an op in a device's open submission. */
  join(participant: Participant): void;
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

/** Refuses tensors of a pool, which ops reach through `states` only. */
function expectUnguarded(op: string, argument: string, tensor: Tensor, bound: BoundStates | undefined): void {
  if (!storageOf(tensor).guarded || tensor === bound?.state || tensor === bound?.convState) return;
  const expected = "a tensor that is no StatePool's: ops take a pool's states as `states: step.layer(i)`";
  throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: "a tensor of a StatePool" });
}

/** Puts a tensor into a descriptor, or its absence. `bound` are the states that the op was given, whose tensors it may use. */
export function placeTensor<S extends OpStruct>(
  recorder: Recorder,
  descriptor: Descriptor<S>,
  field: FieldOf<S, "gd_tensor">,
  op: string,
  argument: string,
  tensor: Tensor | undefined,
  bound?: BoundStates | undefined,
): void {
  if (tensor === undefined) {
    descriptor.noTensor(field);
    return;
  }
  usable(recorder.device, op, argument, tensor);
  expectUnguarded(op, argument, tensor, bound);
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
