/**
 * Schemas of the ops' arguments, under the ops' names. Plans are checked with them, since a plan is recorded once: a
 * misspelt option, which the hand-written checks of the hot path can't see, is refused there. How tensors and index
 * data fit each other is checked by the op itself in any case.
 */
import { z } from "zod";
import { options, integer, nameOf } from "../arguments/schema-parts.ts";
import { isTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { CausalConv1dArguments } from "./causal-conv1d.ts";
import type { CommitCausalConv1dArguments, CommitGatedDeltaArguments } from "./commit.ts";
import type { CopySlotsArguments } from "./copy-slots.ts";
import type { GatedDeltaNetInplaceArguments, GatedDeltaNetInplaceIdsArguments } from "./ggml-delta.ts";
import type { GatedDeltaStepArguments } from "./gated-delta-step.ts";
import type { GatedDeltaArguments } from "./gated-delta.ts";
import type { GatedRmsNormArguments } from "./gated-rms-norm.ts";
import type { Indices } from "./indices.ts";
import { isLayerStates } from "./layer-states.ts";
import type { LayerStates } from "./layer-states.ts";
import type { LinearArguments } from "./linear.ts";
import type { SsmConvUpdateInplaceArguments, SsmConvUpdateInplaceIdsArguments } from "./ggml-conv.ts";
import {
  algorithms,
  betaForms,
  convActivations,
  gateDimsNames,
  gateForms,
  headMaps,
  normActivations,
  normOrders,
  qkNorms,
} from "./option-names.ts";

const tensor = z.custom<Tensor>(isTensor, "a Tensor");
const indices = z.custom<Indices>(
  (value) => isTensor(value) || ArrayBuffer.isView(value) || Array.isArray(value),
  "an Int32Array, an array of integers or an i32 tensor",
);
const number = z.number("a finite number");
const epsilon = number.min(0, "a number of at least 0");

const gate = {
  gate: tensor,
  beta: tensor,
  aLog: tensor.optional(),
  dtBias: tensor.optional(),
  gateForm: nameOf(gateForms),
  gateDims: nameOf(gateDimsNames).optional(),
  gateBound: number.optional(),
  betaForm: nameOf(betaForms).optional(),
  heads: nameOf(headMaps).optional(),
  qkNorm: nameOf(qkNorms).optional(),
  qkNormEps: epsilon.optional(),
  scale: number.optional(),
};

const kept = {
  source: tensor.optional(),
  snapshots: tensor.optional(),
  snapshotSlots: indices.optional(),
  checkpoints: z.strictObject({ offsets: indices, tokens: indices, slots: indices }, "{ offsets, tokens, slots }").optional(),
};

const states = z.custom<LayerStates>(isLayerStates, "what step.layer(i) or draft.layer(i) gives").optional();

const records = z.strictObject({ key: tensor, delta: tensor, decay: tensor }, "{ key, delta, decay }");

const ragged = {
  cuSeqlens: indices.optional(),
  readSlots: indices.optional(),
  writeSlots: indices.optional(),
};

/** {@link GatedDeltaArguments} */
export const gatedDelta = options<GatedDeltaArguments>()({
  query: tensor,
  key: tensor,
  value: tensor,
  ...gate,
  state: tensor.optional(),
  out: tensor,
  ...ragged,
  ...kept,
  records: records.optional(),
  states,
  algorithm: nameOf(algorithms).optional(),
});

/** {@link CausalConv1dArguments} */
export const causalConv1d = options<CausalConv1dArguments>()({
  x: tensor,
  weight: tensor,
  bias: tensor.optional(),
  state: tensor.optional(),
  out: tensor,
  activation: nameOf(convActivations).optional(),
  ...ragged,
  ...kept,
  states,
});

/** {@link GatedRmsNormArguments} */
export const gatedRmsNorm = options<GatedRmsNormArguments>()({
  x: tensor,
  z: tensor,
  weight: tensor,
  out: tensor,
  eps: epsilon.optional(),
  activation: nameOf(normActivations).optional(),
  order: nameOf(normOrders).optional(),
});

/** {@link GatedDeltaStepArguments} */
export const gatedDeltaStep = options<GatedDeltaStepArguments>()({
  x: tensor,
  keyHeads: integer(1, 2 ** 31 - 1),
  convWeight: tensor,
  convBias: tensor.optional(),
  convState: tensor.optional(),
  ...gate,
  state: tensor.optional(),
  z: tensor,
  normWeight: tensor,
  out: tensor,
  states,
  readSlots: ragged.readSlots,
  writeSlots: ragged.writeSlots,
  convActivation: nameOf(convActivations).optional(),
  normActivation: nameOf(normActivations).optional(),
  normOrder: nameOf(normOrders).optional(),
  normEps: epsilon.optional(),
});

/** {@link LinearArguments} */
export const linear = options<LinearArguments>()({ x: tensor, weight: tensor, out: tensor });

/** {@link CopySlotsArguments} */
export const copySlots = options<CopySlotsArguments>()({ pool: tensor, readSlots: indices, writeSlots: indices });

/** {@link CommitGatedDeltaArguments} */
export const commitGatedDelta = options<CommitGatedDeltaArguments>()({
  records,
  state: tensor.optional(),
  states,
  heads: nameOf(headMaps).optional(),
  counts: indices,
  ...ragged,
});

/** {@link CommitCausalConv1dArguments} */
export const commitCausalConv1d = options<CommitCausalConv1dArguments>()({ x: tensor, state: tensor.optional(), states, counts: indices, ...ragged });

const net = { q: tensor, k: tensor, v: tensor, gate: tensor, beta: tensor, snapshots: tensor.optional(), out: tensor };
const update = { weight: tensor, x: tensor, silu: z.boolean("a boolean"), out: tensor };
const ids = { ids: indices, rsHead: integer(-(2 ** 31), 2 ** 31 - 1) };

/** {@link GatedDeltaNetInplaceArguments} */
export const gatedDeltaNetInplace = options<GatedDeltaNetInplaceArguments>()({ ...net, state: tensor, stateDst: tensor });

/** {@link GatedDeltaNetInplaceIdsArguments} */
export const gatedDeltaNetInplaceIds = options<GatedDeltaNetInplaceIdsArguments>()({ ...net, cache: tensor, ...ids });

/** {@link SsmConvUpdateInplaceArguments} */
export const ssmConvUpdateInplace = options<SsmConvUpdateInplaceArguments>()({
  ...update,
  convStates: tensor,
  convStateDst: tensor,
});

/** {@link SsmConvUpdateInplaceIdsArguments} */
export const ssmConvUpdateInplaceIds = options<SsmConvUpdateInplaceIdsArguments>()({ ...update, convCache: tensor, ...ids });
