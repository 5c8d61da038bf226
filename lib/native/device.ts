/** Native devices: opening, description, submissions. */
import { ptr, toArrayBuffer } from "bun:ffi";
import type { Pointer } from "bun:ffi";
import { asPointer, firstOut, firstResult, secondOut, secondResult } from "./handle.ts";
import type { Handle } from "./handle.ts";
import { constants, structs } from "./layout.ts";
import { library } from "./library.ts";
import { check, lastError } from "./status.ts";
import { endWithEnvironment } from "./environment.ts";

/** Version of every descriptor that this package writes. */
export const descriptorVersion = constants.GD_ABI_VERSION;

/** The backends' numbers by their public names. */
const backends = {
  auto: constants.GD_BACKEND_AUTO,
  cpu: constants.GD_BACKEND_CPU,
  metal: constants.GD_BACKEND_METAL,
} as const;

/** The description of a device. */
export interface DeviceDescription {
  readonly backend: "cpu" | "metal";
  readonly name: string;
  readonly isa: string;
  readonly threads: number;
  readonly emulated: boolean;
  /** Bytes of the longest buffer. */
  readonly largestBuffer: number;
  /** Finished and failed submissions, written by the device: read it with `Atomics.load`, and only until it closes. */
  readonly status: Int32Array;
}

/** Opens a device; 0 threads means every core that the process may use. */
export function openDevice(backend: keyof typeof backends, threads: number): Handle {
  const { size, offsets } = structs.gd_device_options;
  const options = new DataView(new ArrayBuffer(size));
  options.setUint32(offsets.size, size, true);
  options.setUint32(offsets.version, descriptorVersion, true);
  options.setUint32(offsets.backend, backends[backend], true);
  options.setUint32(offsets.threads, threads, true);
  endWithEnvironment();
  check(library().gd_device_open(options as never, firstOut as never), "Device.open");
  return firstResult() as Handle;
}

/** Reads a device's description. */
export function describeDevice(device: Handle): DeviceDescription {
  const { size, offsets } = structs.gd_device_info;
  const info = new DataView(new ArrayBuffer(size));
  info.setUint32(offsets.size, size, true);
  info.setUint32(offsets.version, descriptorVersion, true);
  check(library().gd_device_describe(asPointer(device), info as never), "Device.open");
  const status = info.getUint32(offsets.status, true) + info.getUint32(offsets.status + 4, true) * 2 ** 32;
  return {
    backend: info.getUint32(offsets.backend, true) === constants.GD_BACKEND_METAL ? "metal" : "cpu",
    name: textAt(info, offsets.name, offsets.isa),
    isa: textAt(info, offsets.isa, size),
    threads: info.getUint32(offsets.threads, true),
    emulated: info.getUint32(offsets.emulated, true) !== 0,
    largestBuffer: Number(info.getBigUint64(offsets.largest_buffer, true)),
    status: new Int32Array(toArrayBuffer(status as Pointer, 0, 8)),
  };
}

/** The text in a fixed field that ends at its first zero byte or at `end`. */
function textAt(view: DataView<ArrayBuffer>, start: number, end: number): string {
  const bytes = new Uint8Array(view.buffer, start, end - start);
  const length = bytes.indexOf(0);
  return new TextDecoder().decode(length < 0 ? bytes : bytes.subarray(0, length));
}

/** Bytes of a device's buffers: its own memory, and mapped files. */
export function memoryOf(device: Handle, op: string): { own: number; mapped: number } {
  check(library().gd_device_memory(asPointer(device), firstOut as never, secondOut as never), op);
  return { own: firstResult(), mapped: secondResult() };
}

/** Closes a device after its pending work. Errors are ignored, because the caller can do nothing about them. */
export function closeDevice(device: Handle): void {
  library().gd_device_close(asPointer(device));
}

/** Ends a device without waiting for its work. Work on memory of the caller is stopped. */
export function abandonDevice(device: Handle): void {
  library().gd_device_abandon(asPointer(device));
}

/** Commits the encoded ops; returns the ticket. */
export function commit(device: Handle, op: string): number {
  check(library().gd_commit(asPointer(device), firstOut as never), op);
  return firstResult();
}

/** Drops the ops encoded since the last commit. */
export function discard(device: Handle): void {
  library().gd_discard(asPointer(device));
}

/** The failure of a finished submission, or undefined. */
export function failureOf(device: Handle, ticket: number, op: string): Error | undefined {
  const status = library().gd_poll(asPointer(device), ticket);
  return status === constants.GD_OK || status === constants.GD_PENDING ? undefined : lastError(status, op);
}

const noTimeout = 0xffff_ffff_ffff_ffffn;

/**
 * Blocks until a submission has finished or the time is over. Returns the error of the submission or of the call, or
 * `"timeout"` if the time was over first.
 */
export function waitFor(
  device: Handle,
  ticket: number,
  timeoutMs: number | undefined,
  op: string,
): Error | "timeout" | undefined {
  const nanoseconds =
    timeoutMs === undefined || timeoutMs === Infinity
      ? noTimeout
      : Math.min(Math.ceil(timeoutMs * 1e6), Number.MAX_SAFE_INTEGER);
  const status = library().gd_wait(asPointer(device), ticket, nanoseconds);
  if (status === constants.GD_OK) return undefined;
  return status === constants.GD_ERROR_TIMEOUT ? "timeout" : lastError(status, op);
}

/** Makes a socket to which the device writes the bytes that {@link notify} asks for; returns its descriptor, which the caller closes. */
export function makeNotifier(device: Handle, op: string): number {
  check(library().gd_notifier(asPointer(device), firstOut as never), op);
  return firstOut[0]!;
}

/** Asks for a byte on that socket when a submission has finished; false if it already has. */
export function notify(device: Handle, ticket: number, op: string): boolean {
  const status = library().gd_notify(asPointer(device), ticket);
  if (status !== constants.GD_PENDING) check(status, op);
  return status === constants.GD_PENDING;
}

/** Makes an empty plan. */
export function createPlan(device: Handle, op: string): Handle {
  check(library().gd_plan_create(asPointer(device), firstOut as never), op);
  return firstResult() as Handle;
}

/** Replays a plan; returns the ticket. */
export function runPlan(plan: Handle, op: string): number {
  check(library().gd_plan_run(asPointer(plan), firstOut as never), op);
  return firstResult();
}

/** Starts to compile the kernels that a plan's ops need. */
export function beginPreparation(plan: Handle, op: string): void {
  check(library().gd_plan_prepare(asPointer(plan)), op);
}

/** Whether that compilation is done. Throws its error if it failed. */
export function isPrepared(plan: Handle, op: string): boolean {
  const status = library().gd_plan_poll(asPointer(plan));
  if (status === constants.GD_PENDING) return false;
  check(status, op);
  return true;
}

/** Releases a plan. */
export function releasePlan(plan: Handle): void {
  library().gd_plan_release(asPointer(plan));
}

/** The address of memory that does not move. The view must be of an explicitly made ArrayBuffer: small typed arrays move. */
export function addressOf(view: NodeJS.TypedArray): number {
  return ptr(view);
}
