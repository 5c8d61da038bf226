import { asArguments } from "../arguments/checks.ts";
import { asTensor, expectContiguous, expectFloat } from "../tensor/expect.ts";
import { ShapeError } from "../errors.ts";
import { Descriptor } from "../native/descriptor.ts";
import { sizeOf } from "../tensor/strides.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { notIndices, readIndices } from "./indices.ts";
import type { Indices } from "./indices.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { placeIndices, placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

const op = "copySlots";

/** Arguments of {@link copySlots}. */
export interface CopySlotsArguments {
  /** Read and written in place: `[slots, …]`, f32, f16 or bf16, contiguous. */
  readonly pool: Tensor;
  /** The slot that each copy reads; −1 stands for zeros. */
  readonly readSlots: Indices;
  /** The slot that each copy writes, as many as are read, each at most once; −1 skips the copy. */
  readonly writeSlots: Indices;
}

/**
 * Copies or zeroes whole slots of a pool: slot writeSlots[i] becomes what slot readSlots[i] was before the op. Zeros
 * are stored, so what a slot held before, NaN included, is gone.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other; nothing is written then.
 * @example
 * device.run(copySlots({ pool: state, readSlots: [0, 1], writeSlots: [1, 0] })); // swap
 */
export function copySlots(args: CopySlotsArguments): Op {
  return makeOp(op, args, read, encode);
}

type Values = ReturnType<typeof read>;

function read(args: CopySlotsArguments) {
  const { pool: givenPool, readSlots, writeSlots } = asArguments(op, args);
  const pool = asTensor(op, "pool", givenPool);
  expectFloat(op, "pool", pool);
  expectContiguous(op, "pool", pool);
  if (readSlots === undefined) throw notIndices(op, "readSlots", readSlots);
  if (writeSlots === undefined) throw notIndices(op, "writeSlots", writeSlots);
  return { slots: pool.shape[0]!, slotElements: sizeOf(pool.shape.slice(1)), pool, readSlots, writeSlots };
}

const descriptor = new Descriptor("gd_copy_slots");

function encode(recorder: Recorder, values: Values): void {
  const readSlots = readIndices(op, "readSlots", values.readSlots)!;
  const writeSlots = readIndices(op, "writeSlots", values.writeSlots)!;
  if (readSlots.count !== writeSlots.count) {
    const expected = `${readSlots.count} slots, as many as readSlots has`;
    throw new ShapeError({ op, argument: "writeSlots", expected, received: `${writeSlots.count}` });
  }
  descriptor.u32("slots", values.slots);
  descriptor.u32("count", readSlots.count);
  descriptor.u64("slot_elements", values.slotElements);
  placeTensor(recorder, descriptor, "pool", op, "pool", values.pool);
  placeIndices(recorder, descriptor, [
    ["read_slots", readSlots],
    ["write_slots", writeSlots],
  ]);
  descriptor.encode(recorder.target, op);
}
