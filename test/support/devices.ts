/** Devices for tests of the API, and ops that take a while on them. */
import { Device, linear } from "../../lib/index.ts";
import type { BackendName, DType, FloatDType, Op, Tensor } from "../../lib/index.ts";
import { GatedDeltaError } from "../../lib/index.ts";
import { expect } from "bun:test";

/** The backend that the tests of the API run on: the machine's own, unless GATED_DELTA_TEST_BACKENDS is just `metal`. */
export const testBackend: BackendName = process.env["GATED_DELTA_TEST_BACKENDS"] === "metal" ? "metal" : "auto";

/** A device of the backend under test. */
export function openDevice(threads = 0): Device {
  return Device.open({ backend: testBackend, threads });
}

/** A tensor of distinct numbers: first, first + step, … */
export function counting<D extends DType>(
  device: Device,
  dtype: D,
  shape: readonly number[],
  first = 0,
  step = 1,
): Tensor<D> {
  const tensor = device.tensor(dtype, shape);
  return tensor.copyFrom(Array.from({ length: tensor.size }, (_, i) => (dtype === "u8" ? (first + step * i) % 256 : first + step * i)));
}

/** A diagonal matrix as a tensor: with it, `linear` copies x, times `factor`. */
export function diagonal<D extends FloatDType>(device: Device, dtype: D, size: number, factor = 1): Tensor<D> {
  return device.tensorFrom(
    dtype,
    [size, size],
    Array.from({ length: size * size }, (_, i) => (i % (size + 1) === 0 ? factor : 0)),
  );
}

/** An op that runs long enough for a test to observe it while pending, and its result. */
export interface SlowWork {
  readonly op: Op;
  readonly x: Tensor<"f32">;
  readonly weight: Tensor<"f32">;
  readonly out: Tensor<"f32">;
  /** Whether `out` holds the expected result. */
  check(): void;
}

/** Long work for the device, about a billion multiplications for a real one: out = 2 x. */
export function slowWork(device: Device): SlowWork {
  const [rows, features] = device.emulated ? [32, 128] : [2048, 1024];
  const x = device.tensor("f32", [rows, features]);
  for (let i = 0; i < x.data.length; i++) x.data[i] = i % 1000;
  const weight = diagonal(device, "f32", features, 2);
  const out = device.tensor("f32", [rows, features]);
  const check = () => {
    let wrong = 0;
    for (let i = 0; i < out.data.length; i++) if (out.data[i] !== 2 * (i % 1000)) wrong++;
    expect(wrong).toBe(0);
  };
  return { op: linear({ x, weight, out }), x, weight, out, check };
}

/** Whether work is pending on a device. */
export function isPending(device: Device): boolean {
  try {
    device.wait(0);
    return false;
  } catch (error) {
    if (error instanceof GatedDeltaError && error.code === "timeout") return true;
    throw error;
  }
}

/** This many runs of {@link slowWork} take a device several seconds or more. */
export const mostTimes = 256;

/**
 * Calls `attempt` with an idle device and the number of times to run its work; returns its result. The work
 * must still be pending then: an attempt whose thread was stalled for longer than the work took shows nothing, and is repeated
 * with more work.
 */
export function whilePending<T>(device: Device, attempt: (times: number) => T): T {
  for (let times = 1; times <= mostTimes; times *= 2) {
    const seen = attempt(times);
    const pending = isPending(device);
    device.wait();
    if (pending) return seen;
  }
  throw new Error("the work is never pending once it is committed");
}

/** The error of this library that a function throws. */
export function thrownBy(run: () => unknown): GatedDeltaError {
  try {
    run();
  } catch (error) {
    if (error instanceof GatedDeltaError) return error;
    throw new Error("not one of this library's errors", { cause: error });
  }
  throw new Error("nothing was thrown");
}
