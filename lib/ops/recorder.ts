/** The interface of the device or plan that an op is encoded into. */
import { DisposedError, GatedDeltaError } from "../errors.ts";
import type { Descriptor } from "../native/descriptor.ts";
import type { Handle } from "../native/handle.ts";
import { disposals, storageOf, wordsOf } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { readIndices } from "./indices.ts";
import type { IndexData, Indices } from "./indices.ts";
import { admit, encoded } from "./layer-states.ts";
import type { BoundStates, StateKind } from "./layer-states.ts";
import type { OpKind } from "./op-kind.ts";
import type { Values } from "./read-arguments.ts";

/** A step or draft of a pool, which is told the fate of the submission with its ops. */
export interface Participant {
  /** Called before the submission is committed. Throws to refuse the commit. */
  beforeCommit(op: string): void;
  /** The submission was committed. */
  committed(ticket: number): void;
  /** The encoded ops were dropped. */
  discarded(): void;
  /** A committed submission has finished, with or without a failure. */
  settled(failure: Error | undefined): void;
}

/** A layer's states that one op of a plan writes. */
export interface LayerUse {
  readonly layer: number;
  readonly kinds: readonly StateKind[];
}

/** Stands in a plan for the step of each replay. */
export interface Placeholder {
  /**
   * Copies a step's slots to where the plan reads them, after checking that the step can write everything in `uses`.
   *
   * @returns the step; a check that it is still open; and a function that notes that a replay has written all of `uses`.
   */
  enter(op: string, step: unknown, uses: readonly LayerUse[]): { readonly participant: Participant; expectOpen(): void; wrote(): void };
}

/** The states of a plan: the placeholder for the step of each replay, and the states that the ops write. */
export interface PlanStates {
  placeholder: Placeholder | undefined;
  readonly uses: LayerUse[];
}

/** A device's open submission, or a plan. */
export interface Recorder {
  /** The device, which tensors are compared with. */
  readonly device: object;
  readonly target: Handle;
  /** Called once per op, before its first index data, with the total number of its index elements. */
  beginIndices(count: number): void;
  /** Puts index data into a descriptor: `data` was read from the argument's `source`. */
  placeIndices(descriptor: Descriptor, at: number, argument: IndexArgument, data: Int32Array | Tensor<"i32">): void;
  /** The states that a plan's ops write; undefined for a device's open submission. */
  readonly planStates: PlanStates | undefined;
  /** Records that a step or draft has an op in a device's open submission. */
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

/** Refuses tensors of a pool, which ops may use only through `states`. */
function expectUnguarded(op: string, argument: string, tensor: Tensor, bound: BoundStates | undefined): void {
  if (!storageOf(tensor).guarded || tensor === bound?.state || tensor === bound?.convState) return;
  const expected = "a tensor that does not belong to a StatePool: pass a pool's states as `states: step.layer(i)`";
  throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: "a tensor of a StatePool" });
}

const noIndices: readonly (IndexData | undefined)[] = [];

/** Packs an op's arguments and passes them to the native side. */
export function encodeValues(recorder: Recorder, { name, numbers, tensors, indices, descriptor }: OpKind, values: Values): void {
  let count = 0;
  let data = noIndices;
  if (indices.length > 0) {
    data = indices.map((place, i) => readIndices(name, place.name, values.indices[i]));
    for (const one of data) count += one?.count ?? 0;
  }
  const { states } = values;
  states?.layer[admit](states.use, recorder);
  // From here on no code of the caller runs: all calls share the descriptor and the index memory.
  const checked = values.checkedFor === recorder.device && values.checkedAt === disposals;
  for (let i = 0; i < numbers.length; i++) descriptor.number(numbers[i]!.at, values.numbers[i]!);
  for (let i = 0; i < tensors.length; i++) {
    const tensor = values.tensors[i];
    const place = tensors[i]!;
    if (tensor === undefined) {
      descriptor.noTensor(place.at);
      continue;
    }
    if (!checked) {
      usable(recorder.device, name, place.name, tensor);
      expectUnguarded(name, place.name, tensor, states?.bound);
    }
    recorder.keep(name, place.name, tensor);
    descriptor.tensor(place.at, wordsOf(tensor));
  }
  values.checkedFor = recorder.device;
  values.checkedAt = disposals;
  if (indices.length > 0) recorder.beginIndices(count);
  for (let i = 0; i < data.length; i++) {
    const one = data[i];
    if (one === undefined) descriptor.noIndex(indices[i]!.at);
    else recorder.placeIndices(descriptor, indices[i]!.at, one, one.elements);
  }
  descriptor.encode(recorder.target, name);
  states?.layer[encoded](states.use, recorder);
}

/** Checks that a tensor can be used by ops of a device. */
export function usable(device: object, op: string, argument: string, tensor: Tensor): void {
  if (tensor.disposed) {
    throw new DisposedError({ op, argument, expected: "a tensor that is not disposed" });
  }
  if (tensor.device !== device) {
    const expected = "a tensor of the device that runs the op";
    throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: "one of another device" });
  }
}
