/** The schemas of a device's options. */
import { options } from "../arguments/schemas.ts";
import type { DeviceOptions } from "./device-options.ts";

/** {@link DeviceOptions} */
export const deviceOptions = options<DeviceOptions>()(({ choice, integer }) => ({
  backend: choice("auto", "cpu", "metal").default("auto"),
  threads: integer(0, 1024).default(0),
}));
