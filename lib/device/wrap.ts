/** Tensors over memory that JavaScript already has. */
import { types } from "node:util";
import { asDType, dtypes } from "../tensor/dtype.ts";
import type { DType } from "../tensor/dtype.ts";
import type { Device } from "./device.ts";
import { DisposedError, GatedDeltaError, ShapeError, describe } from "../errors.ts";
import { native } from "./device-handle.ts";
import { invalid } from "../arguments/checks.ts";
import { membersOf } from "../arguments/members.ts";
import { getter, reading, typedArray } from "../arguments/reading.ts";
import { asAddress, asShape, bytesOf, elementsWithin } from "../tensor/shape.ts";
import { borrowPointer, borrowStorage, storageBehind } from "../tensor/storage.ts";
import { contiguousStrides } from "../tensor/strides.ts";
import { makeTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";

/**
 * Implements {@link Device.wrap} and {@link Device.unsafeWrap}.
 *
 * @param unsafe whether an ordinary ArrayBuffer is accepted.
 */
export function wrapMemory<D extends DType>(
  device: Device,
  dtype: D,
  shape: readonly number[],
  memory: ArrayBufferLike | ArrayBufferView<ArrayBufferLike>,
  unsafe: boolean,
): Tensor<D> {
  const op = unsafe ? "device.unsafeWrap" : "device.wrap";
  const handle = device[native];
  asDType(dtype, op, "dtype");
  const dimensions = asShape(op, "shape", shape);
  const view = reading(op, "memory", () => bytesOfMemory(op, memory, unsafe));
  elementsWithin(op, "memory", view.byteLength, dtype, dimensions);
  const elementBytes = dtypes[dtype].bytes;
  if (view.byteOffset % elementBytes !== 0) {
    const expected = `a start at a multiple of ${elementBytes} bytes`;
    throw new ShapeError({ op, argument: "memory", expected, received: `byteOffset ${view.byteOffset}` });
  }
  const strides = contiguousStrides(dimensions);
  const storage = storageBehind(view.buffer);
  if (storage !== undefined) {
    if (storage.device !== handle) {
      const expected = "memory of this device's tensors";
      throw new GatedDeltaError("invalid-argument", {
        op,
        argument: "memory",
        expected,
        received: "memory of another device",
      });
    }
    // The device owns this memory already, so this tensor is another view of it and does not free it.
    const tenure = { owns: false, viewed: undefined };
    return makeTensor(device, storage, dtype, view.byteOffset, dimensions, strides, tenure);
  }
  return makeTensor(device, borrowStorage(handle, view, op), dtype, 0, dimensions, strides);
}

/** Options of {@link Device.fromPointer}. */
export interface FromPointerOptions {
  /** An object that keeps the memory valid: it stays reachable as long as the tensor, its `data` and pending work need it. */
  readonly owner: object;
  /** Length of the memory in bytes, at least that of the tensor. @default the tensor's */
  readonly bytes?: number | undefined;
}

/** Implements {@link Device.fromPointer}. */
export function wrapAddress<D extends DType>(
  device: Device,
  dtype: D,
  shape: readonly number[],
  pointer: number,
  options: FromPointerOptions,
): Tensor<D> {
  const op = "device.fromPointer";
  const handle = device[native];
  asDType(dtype, op, "dtype");
  const dimensions = asShape(op, "shape", shape);
  const address = asAddress(op, "pointer", pointer);
  const { owner, bytes } = asPointerOptions(op, options);
  const length = bytes ?? bytesOf(op, dtype, dimensions);
  elementsWithin(op, "bytes", length, dtype, dimensions);
  return makeTensor(device, borrowPointer(handle, address, length, owner, op), dtype, 0, dimensions, contiguousStrides(dimensions));
}

/** Checks the options of {@link wrapAddress}; each is read once. */
function asPointerOptions(op: string, options: FromPointerOptions): FromPointerOptions {
  const { owner, bytes } = membersOf(op, options, ["owner", "bytes"], { expected: "{ owner, bytes? }" });
  const isObject = (typeof owner === "object" && owner !== null) || typeof owner === "function";
  if (!isObject) throw invalid(op, "owner", "an object", owner);
  if (bytes !== undefined && !(typeof bytes === "number" && Number.isSafeInteger(bytes) && bytes >= 0)) {
    throw invalid(op, "bytes", "a number of bytes", bytes);
  }
  return { owner, bytes };
}

const isGrowable = getter<boolean>(SharedArrayBuffer.prototype, "growable");
const isResizable = getter<boolean>(ArrayBuffer.prototype, "resizable");
const isDetached = getter<boolean>(ArrayBuffer.prototype, "detached");

/** The buffer of a view, and its place there. */
function placeOf(view: ArrayBufferView) {
  const prototype = types.isDataView(view) ? DataView.prototype : typedArray;
  const of = <Value>(name: string) => getter<Value>(prototype, name)(view);
  return { buffer: of<ArrayBufferLike>("buffer"), byteOffset: of<number>("byteOffset"), byteLength: of<number>("byteLength") };
}

/** The bytes of the memory, if it is of a kind that can be used in place. */
function bytesOfMemory(op: string, memory: unknown, unsafe: boolean): Uint8Array<ArrayBufferLike> {
  // An object may have the prototype of a buffer, and members of its own over those of a view or a buffer.
  const view = ArrayBuffer.isView(memory) ? placeOf(memory) : undefined;
  const buffer: unknown = view?.buffer ?? memory;
  const shared = types.isSharedArrayBuffer(buffer);
  if (!shared && !types.isArrayBuffer(buffer)) {
    const expected = unsafe
      ? "an ArrayBuffer, a SharedArrayBuffer or a view of one"
      : "a SharedArrayBuffer or a view of one";
    throw new GatedDeltaError("invalid-argument", { op, argument: "memory", expected, received: describe(memory) });
  }
  if (shared ? isGrowable(buffer) : isResizable(buffer)) {
    const expected = "memory of fixed length";
    throw new GatedDeltaError("invalid-argument", { op, argument: "memory", expected, received: "a resizable buffer" });
  }
  if (!shared && isDetached(buffer)) {
    throw new DisposedError({
      op,
      argument: "memory",
      expected: "memory that is not detached",
      received: "a detached buffer",
    });
  }
  if (!shared && !unsafe && storageBehind(buffer) === undefined) {
    throw new GatedDeltaError("invalid-argument", {
      op,
      argument: "memory",
      expected: "a SharedArrayBuffer or memory of this library, which JavaScript can't move",
      received: "an ArrayBuffer; allocate and copyFrom(…), or see unsafeWrap",
    });
  }
  return view === undefined ? new Uint8Array(buffer) : new Uint8Array(buffer, view.byteOffset, view.byteLength);
}
