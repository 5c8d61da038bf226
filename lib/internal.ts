/** Keys of properties that this package's own modules use on its public objects. Not exported from the package. */
import { GatedDeltaError, describe } from "./errors.ts";
import type { Handle } from "./native/handle.ts";

/** A device's native handle; reading it throws once the device is closed. */
export const native: unique symbol = Symbol("native handle");

/** What has a native handle. */
export interface HasHandle {
  readonly [native]: Handle;
}

/** The native handle of a device, or of whatever a caller passed for one. */
export function handleOf(op: string, device: unknown): Handle {
  if (typeof device === "object" && device !== null && native in device) return (device as HasHandle)[native];
  throw new GatedDeltaError("invalid-argument", {
    op,
    argument: "device",
    expected: "a Device",
    received: describe(device),
  });
}
