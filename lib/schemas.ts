/** The zod schemas of options objects. Loaded lazily by options.ts, and by nothing else. */
import type { DeviceOptions } from "./device-options.ts";
import { choice, integer, options } from "./schema-parts.ts";
import type { StatePoolOptions } from "./state-pool.ts";

export { loadOptions } from "./layer/schemas.ts";
export * from "./ops/schemas.ts";

const largestCount = 2 ** 31 - 1;
const headDim = integer(8, 256).multipleOf(8, "a multiple of 8 in 8..256");
const floatDType = choice("f32", "f16", "bf16");

/** {@link DeviceOptions} */
export const deviceOptions = options<DeviceOptions>()({
  backend: choice("auto", "cpu", "metal").default("auto"),
  threads: integer(0, 1024).default(0),
});

/** {@link StatePoolOptions} */
export const statePoolOptions = options<StatePoolOptions>()({
  slots: integer(1, largestCount),
  layers: integer(1, largestCount),
  keyHeads: integer(1, largestCount),
  valueHeads: integer(1, largestCount),
  keyDim: headDim,
  valueDim: headDim,
  convWidth: integer(2, 9),
  convChannels: integer(1, largestCount).optional(),
  stateDtype: floatDType.default("f32"),
  convDtype: floatDType.default("f32"),
});
