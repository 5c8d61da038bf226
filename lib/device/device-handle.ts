/** What modules of this package use of a device beyond its public members. Not exported from the package. */
import type { Device } from "./device.ts";
import { GatedDeltaError, describe } from "../errors.ts";

/** A device's native handle; reading it throws once the device is closed. */
export const native: unique symbol = Symbol("native handle");

const devices = new WeakSet<object>();

/** Notes a new device for {@link asDevice}. */
export function knowDevice(device: Device): void {
  devices.add(device);
}

/** A device. `instanceof` would let proxies through, and objects that only have its prototype. */
export function asDevice(op: string, value: unknown): Device {
  if (typeof value === "object" && value !== null && devices.has(value)) return value as Device;
  throw new GatedDeltaError("invalid-argument", {
    op,
    argument: "device",
    expected: "a Device",
    received: describe(value),
  });
}
