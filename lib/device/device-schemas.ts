/** The zod schemas of a device's options. Loaded when the first one is needed: importing zod takes 13 ms. */
import { choice, integer, options } from "../arguments/schema-parts.ts";
import type { DeviceOptions } from "./device-options.ts";

/** {@link DeviceOptions} */
export const deviceOptions = options<DeviceOptions>()({
  backend: choice("auto", "cpu", "metal").default("auto"),
  threads: integer(0, 1024).default(0),
});
