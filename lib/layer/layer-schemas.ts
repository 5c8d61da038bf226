/** The schemas of a layer's options. */
import { lazily, options } from "../arguments/schemas.ts";
import type { GatedDeltaNetOptions, LoadAllOptions } from "./layer-arguments.ts";

const shared = lazily(({ z, choice }) => ({
  config: z.union([z.string(), z.looseObject({})], "a path or an object").optional(),
  dtype: choice("f32", "f16", "bf16").default("f32"),
}));

/** {@link LoadAllOptions} */
export const loadAllOptions = options<LoadAllOptions>()(shared);

/** {@link GatedDeltaNetOptions} */
export const loadOptions = options<GatedDeltaNetOptions>()(({ integer }) => ({
  layer: integer(0, 65535),
  poolLayer: integer(0, 65535).optional(),
  ...shared(),
}));
