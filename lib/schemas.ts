/** The zod schemas of options objects. Loaded lazily by options.ts, and by nothing else. Messages are expectations. */
import { z } from "zod";
import type { DeviceOptions } from "./device.ts";
import type { StatePoolOptions } from "./state-pool.ts";

const largestCount = 2 ** 31 - 1;

/** A schema and the names of its options. What it gives must be the public interface, so that the two can't drift. */
function options<Public>() {
  return <Shape extends z.ZodRawShape>(shape: Shape) => {
    const expected = "an object of options";
    const schema = z.strictObject(shape, { error: ({ code }) => (code === "invalid_type" ? expected : undefined) });
    type Checked = z.output<typeof schema> extends Public ? z.output<typeof schema> : never;
    return {
      keys: Object.keys(shape),
      safeParse: (value: unknown) => schema.safeParse(value) as z.ZodSafeParseResult<Checked>,
    };
  };
}

const integer = (least: number, most: number) => {
  const expected = `an integer in ${least}..${most}`;
  return z.int(expected).min(least, expected).max(most, expected);
};

const choice = <const Names extends readonly [string, ...string[]]>(...names: Names) =>
  z.enum(names, names.map((name) => JSON.stringify(name)).join(" | "));

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
