/** The schemas of a pool's options. */
import { options } from "../arguments/schemas.ts";
import { headMaps } from "../native/options.ts";
import type { ExportOptions } from "./files/export.ts";
import type { LoadOptions } from "./files/load.ts";
import type { SaveOptions } from "./files/save.ts";
import type { DraftOptions } from "./draft.ts";
import type { PrefixCacheOptions } from "./prefix-cache.ts";
import type { StatePoolOptions } from "./pool-options.ts";

const largestCount = 2 ** 31 - 1;
/** Far more than any model has: a pool makes one or two tensors for each layer before memory can run out. */
const largestLayers = 2 ** 16;
const floatDTypes = ["f32", "f16", "bf16"] as const;

/** {@link StatePoolOptions} */
export const statePoolOptions = options<StatePoolOptions>()(({ choice, flag, integer }) => {
  const count = integer(1, largestCount);
  const headDim = integer(8, 256).multipleOf(8, "a multiple of 8 in 8..256");
  const floatDType = choice(...floatDTypes).default("f32");
  return {
    slots: count,
    layers: integer(1, largestLayers),
    keyHeads: count,
    valueHeads: count,
    keyDim: headDim,
    valueDim: headDim,
    conv: flag.default(true),
    convWidth: integer(2, 9).optional(),
    convChannels: count.optional(),
    stateDtype: floatDType,
    convDtype: floatDType,
  };
});

/** {@link SaveOptions} */
export const saveOptions = options<SaveOptions>()(({ choice }) => ({
  stateDtype: choice(...floatDTypes).optional(),
  convDtype: choice(...floatDTypes).optional(),
}));

/** {@link LoadOptions} of a pool */
export const poolLoadOptions = options<LoadOptions>()(({ flag }) => ({ convert: flag.default(false) }));

/** {@link ExportOptions} */
export const exportOptions = options<ExportOptions>()(({ choice, integer, nameOf }) => ({
  layout: choice("mlx", "hf", "ggml"),
  stateDtype: choice(...floatDTypes).optional(),
  convDtype: choice(...floatDTypes).optional(),
  convColumns: integer(1, 9).optional(),
  headMap: nameOf(headMaps).optional(),
}));

/** {@link DraftOptions} */
export const draftOptions = options<DraftOptions>()(({ choice }) => ({ records: choice("deltas", "snapshots").default("deltas") }));

/** {@link PrefixCacheOptions} */
export const prefixCacheOptions = options<PrefixCacheOptions>()(({ integer }) => ({ bytes: integer(0, Number.MAX_SAFE_INTEGER) }));
