/** The options of `GatedDeltaNet.load`, checked once. */

import type { FloatDType } from "../dtype.ts";
import { GatedDeltaError, describe } from "../errors.ts";

/** Checked options with their defaults. */
export interface LoadOptions {
  readonly layer: number;
  readonly poolLayer: number | undefined;
  readonly config: string | object | undefined;
  readonly dtype: FloatDType;
}

/** Checks the options; a mistake is an `invalid-argument` error that names the option. */
export function parseLoadOptions(options: unknown): LoadOptions {
  const { loadSchema } = require("./schemas.ts") as typeof import("./schemas.ts");
  const parsed = loadSchema.safeParse(options);
  if (parsed.success) {
    const { layer, poolLayer, config, dtype = "f32" } = parsed.data;
    return { layer, poolLayer, config, dtype };
  }
  const issue = parsed.error.issues[0];
  const key = issue?.path[0];
  const value = key === undefined ? options : (options as Record<PropertyKey, unknown>)[key];
  throw new GatedDeltaError("invalid-argument", {
    op: "GatedDeltaNet.load",
    argument: key === undefined ? "options" : String(key),
    expected: issue?.message ?? "valid options",
    received: describe(value),
  });
}
