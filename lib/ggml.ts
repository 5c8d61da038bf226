/**
 * The fused ops under ggml's names and semantics, for hosts that keep their states as llama.cpp does. They run on the
 * devices and tensors of the main module.
 *
 * @module
 */
export {
  gatedDeltaNetInplace,
  gatedDeltaNetInplaceIds,
  ssmConvUpdateInplace,
  ssmConvUpdateInplaceIds,
} from "./ops/ggml.ts";
export type {
  GatedDeltaNetArguments,
  GatedDeltaNetInplaceArguments,
  GatedDeltaNetInplaceIdsArguments,
  IdsArguments,
  SsmConvUpdateArguments,
  SsmConvUpdateInplaceArguments,
  SsmConvUpdateInplaceIdsArguments,
} from "./ops/ggml.ts";
