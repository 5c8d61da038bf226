/**
 * Fused Gated DeltaNet operations for Bun, over Metal and the CPU, in memory that JavaScript shares.
 *
 * @module
 */
export { Device } from "./device/device.ts";
export type { BackendName, DeviceOptions, FinishOptions } from "./device/device-options.ts";
export { Tensor } from "./tensor/tensor.ts";
export type { TensorView } from "./tensor/shape.ts";
export type { FromPointerOptions } from "./device/wrap.ts";
export { decodeBf16, encodeBf16 } from "./tensor/dtype.ts";
export type { ArrayOfDType, DType, FloatDType } from "./tensor/dtype.ts";
export { Plan } from "./device/plan.ts";
export type { PlanRunOptions } from "./device/plan.ts";
export { Pass } from "./device/pass.ts";
export { Op } from "./ops/op.ts";
export * from "./ops/functions.ts";
export type { CheckpointArguments, CommitArguments, KeptStateArguments, RaggedArguments } from "./ops/state-arguments.ts";
export type { DeltaRecords, GateTensors, RecurrenceOptions } from "./ops/recurrence-arguments.ts";
export type { Indices } from "./ops/indices.ts";
export type { LayerStates, StateKind } from "./ops/layer-states.ts";
export type {
  ActivationForm,
  Algorithm,
  BetaForm,
  ConvActivation,
  GateDims,
  GateForm,
  HeadMap,
  NormActivation,
  NormOrder,
  Products,
  QKNorm,
  WeightForm,
  WeightFormat,
} from "./native/options.ts";
export { StatePool } from "./states/state-pool.ts";
export type { StatePoolOptions, StepOptions } from "./states/pool-options.ts";
export { StateHandle } from "./states/state-handle.ts";
export { PoolStep } from "./states/pool-step.ts";
export type { Checkpoints } from "./states/pool-step.ts";
export { StepPlaceholder } from "./states/step-placeholder.ts";
export { Draft } from "./states/draft.ts";
export type { DraftOptions } from "./states/draft.ts";
export { PrefixCache } from "./states/prefix-cache.ts";
export type { PrefixCacheOptions, PrefixHit, Tokens } from "./states/prefix-cache.ts";
export type { PoolShape } from "./states/pool-shape.ts";
export type { SaveOptions } from "./states/files/save.ts";
export type { LoadOptions } from "./states/files/load.ts";
export type { ExportOptions, StateLayout } from "./states/files/export.ts";
export { GatedDeltaNet } from "./layer/gated-delta-net.ts";
export type {
  BatchArguments,
  DecodeArguments,
  ForwardArguments,
  GatedDeltaNetOptions,
  HiddenArguments,
  LoadAllOptions,
  MixArguments,
  MixStepArguments,
  PassArguments,
  ProjectedArguments,
  StepArguments,
} from "./layer/layer-arguments.ts";
export type { LayerConfig } from "./checkpoint/mixer-config.ts";
export {
  BoundsError,
  DTypeError,
  DeviceError,
  DisposedError,
  FileError,
  GatedDeltaError,
  LibraryError,
  OverlapError,
  ShapeError,
  TimeoutError,
  UnsupportedError,
} from "./errors.ts";
export type { ErrorCode, ErrorDetails } from "./errors.ts";
export { libraryInfo } from "./native/library-info.ts";
export type { LibraryInfo } from "./native/library-info.ts";
export type { LibrarySource } from "./native/candidates.ts";
