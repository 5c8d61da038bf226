/** The time that a device's GPU has spent so far: `gd_device_gpu_time`. */
import type { Device } from "../../lib/index.ts";
import { asPointer, firstOut, firstResult } from "../../lib/native/handle.ts";
import { library } from "../../lib/native/library.ts";
import { check } from "../../lib/native/status.ts";
import { native } from "../../lib/device/device-handle.ts";

/** Nanoseconds of all submissions that have finished; 0 on a CPU device. */
export function gpuNanoseconds(device: Device): number {
  check(library().gd_device_gpu_time(asPointer(device[native]), firstOut as never), "gpuNanoseconds");
  return firstResult();
}
