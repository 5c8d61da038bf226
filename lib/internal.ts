/** Keys of properties that this package's own modules use on its public objects. Not exported from the package. */
import type { Handle } from "./native/handle.ts";

/** A device's native handle; reading it throws once the device is closed. */
export const native: unique symbol = Symbol("native handle");

/** What has a native handle. */
export interface HasHandle {
  readonly [native]: Handle;
}
