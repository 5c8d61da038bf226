/** A device's internals for other modules of this package. Not exported from the package. */
import type { Device } from "./device.ts";
import { GatedDeltaError, describe } from "../errors.ts";

/** A device's native handle; reading it throws once the device is closed. */
export const native: unique symbol = Symbol("native handle");

const devices = new WeakSet<object>();

/** Notes a new device for {@link asDevice}. */
export function knowDevice(device: Device): void {
  devices.add(device);
}

/** Checks that a value is a device. `instanceof` would accept proxies, and objects that only have its prototype. */
export function asDevice(op: string, value: unknown): Device {
  if (typeof value === "object" && value !== null && devices.has(value)) return value as Device;
  throw new GatedDeltaError("invalid-argument", {
    op,
    argument: "device",
    expected: "a Device",
    received: describe(value),
  });
}
