/** The zod schemas of a layer's options. Loaded when a layer is: importing zod takes 13 ms. */

import { z } from "zod";
import { choice, integer, options } from "../arguments/schema-parts.ts";
import type { GatedDeltaNetOptions, LoadAllOptions } from "./layer-arguments.ts";

const index = integer(0, 65535);

const shared = {
  config: z.union([z.string(), z.looseObject({})], "a path or an object").optional(),
  dtype: choice("f32", "f16", "bf16").optional(),
};

/** {@link LoadAllOptions} */
export const loadAllOptions = options<LoadAllOptions>()(shared);

/** {@link GatedDeltaNetOptions} */
export const loadOptions = options<GatedDeltaNetOptions>()({
  layer: index,
  poolLayer: index.optional(),
  ...shared,
});
