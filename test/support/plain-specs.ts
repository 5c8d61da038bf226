/** Small plain cases of each op; a test changes the property that it is about. */
import type { BatchSpec, ConvSpec, DeltaSpec, NormSpec, StepSpec } from "./cases.ts";

/** Two sequences, each in a slot of its own. */
export const twoSequences: BatchSpec = {
  lengths: [5, 3],
  rowsBeyond: 0,
  slots: 2,
  readSlots: [0, 1],
  writeSlots: [0, 1],
};

/** A recurrence in float32 throughout. */
export const plainDelta: DeltaSpec = {
  seed: 1,
  keyHeads: 2,
  ratio: 2,
  keyDim: 16,
  valueDim: 24,
  gateForm: "log",
  gateDims: "head",
  betaForm: "given",
  headMap: "block",
  qkNorm: "l2",
  scale: undefined,
  format: "f32",
  gatesF32: true,
  weightFormat: "f32",
  stateFormat: "f32",
  outFormat: "f32",
};

/** A convolution as models have it, in float32 throughout. */
export const plainConv: ConvSpec = {
  seed: 1,
  channels: 24,
  width: 4,
  bias: true,
  activation: "silu",
  format: "f32",
  weightFormat: "f32",
  stateFormat: "f32",
  outFormat: "f32",
  batch: twoSequences,
};

/** A norm in float32 throughout. */
export const plainNorm: NormSpec = {
  seed: 3,
  tokens: 4,
  heads: 3,
  dim: 40,
  eps: 1e-6,
  activation: "silu",
  order: "norm-then-gate",
  xFormat: "f32",
  format: "f32",
  weightFormat: "f32",
  outFormat: "f32",
};

/** A step of three sequences in place, as models have it, in float32 throughout. */
export const plainStep: StepSpec = {
  ...plainDelta,
  seed: 11,
  ratio: 3,
  gateForm: "raw",
  betaForm: "sigmoid",
  width: 4,
  bias: true,
  convActivation: "silu",
  convStateFormat: "f32",
  normActivation: "silu",
  normOrder: "norm-then-gate",
  sequences: 3,
  slots: 3,
  readSlots: [0, 1, 2],
  writeSlots: [0, 1, 2],
};
