/** The zod schemas of a pool's options. Loaded when the first one is needed: importing zod takes 13 ms. */
import { z } from "zod";
import { choice, integer, nameOf, options } from "../arguments/schema-parts.ts";
import { headMaps } from "../native/options.ts";
import type { ExportOptions } from "./files/export.ts";
import type { LoadOptions } from "./files/load.ts";
import type { SaveOptions } from "./files/save.ts";
import type { DraftOptions } from "./draft.ts";
import type { PrefixCacheOptions } from "./prefix-cache.ts";
import type { StatePoolOptions } from "./pool-options.ts";

const largestCount = 2 ** 31 - 1;
const headDim = integer(8, 256).multipleOf(8, "a multiple of 8 in 8..256");
const floatDType = choice("f32", "f16", "bf16");

/** {@link StatePoolOptions} */
export const statePoolOptions = options<StatePoolOptions>()({
  slots: integer(1, largestCount),
  layers: integer(1, largestCount),
  keyHeads: integer(1, largestCount),
  valueHeads: integer(1, largestCount),
  keyDim: headDim,
  valueDim: headDim,
  conv: z.boolean("a boolean").default(true),
  convWidth: integer(2, 9).optional(),
  convChannels: integer(1, largestCount).optional(),
  stateDtype: floatDType.default("f32"),
  convDtype: floatDType.default("f32"),
});

/** {@link SaveOptions} */
export const saveOptions = options<SaveOptions>()({ stateDtype: floatDType.optional(), convDtype: floatDType.optional() });

/** {@link LoadOptions} of a pool */
export const poolLoadOptions = options<LoadOptions>()({ convert: z.boolean("a boolean").default(false) });

/** {@link ExportOptions} */
export const exportOptions = options<ExportOptions>()({
  layout: choice("mlx", "hf", "ggml"),
  stateDtype: floatDType.optional(),
  convDtype: floatDType.optional(),
  convColumns: integer(1, 9).optional(),
  headMap: nameOf(headMaps).optional(),
});

/** {@link DraftOptions} */
export const draftOptions = options<DraftOptions>()({ records: choice("deltas", "snapshots").default("deltas") });

/** {@link PrefixCacheOptions} */
export const prefixCacheOptions = options<PrefixCacheOptions>()({ bytes: integer(0, Number.MAX_SAFE_INTEGER) });
