// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

/** The ops of the main module. */
export { gatedDelta } from "./gated-delta.ts";
export type { GatedDeltaArguments } from "./gated-delta.ts";
export { causalConv1d } from "./causal-conv1d.ts";
export type { CausalConv1dArguments } from "./causal-conv1d.ts";
export { gatedRmsNorm } from "./gated-rms-norm.ts";
export type { GatedRmsNormArguments } from "./gated-rms-norm.ts";
export { rmsNorm } from "./rms-norm.ts";
export type { RmsNormArguments } from "./rms-norm.ts";
export { gatedDeltaStep } from "./gated-delta-step.ts";
export type { GatedDeltaStepArguments } from "./gated-delta-step.ts";
export { linear } from "./linear.ts";
export type { LinearArguments } from "./linear.ts";
export { add } from "./elementwise.ts";
export type { AddArguments } from "./elementwise.ts";
export { attention } from "./attention.ts";
export type { AttentionArguments } from "./attention.ts";
export { embedding } from "./embedding.ts";
export type { EmbeddingArguments } from "./embedding.ts";
export { siluMul } from "./elementwise.ts";
export type { SiluMulArguments } from "./elementwise.ts";
export { route } from "./route.ts";
export type { RouteArguments } from "./route.ts";
export { expertLinear } from "./expert-linear.ts";
export type { ExpertLinearArguments } from "./expert-linear.ts";
export { combineExperts } from "./combine-experts.ts";
export type { CombineExpertsArguments } from "./combine-experts.ts";
export { topK } from "./top-k.ts";
export type { TopKArguments } from "./top-k.ts";
export { copySlots } from "./copy-slots.ts";
export type { CopySlotsArguments } from "./copy-slots.ts";
export { commitGatedDelta } from "./commit-gated-delta.ts";
export type { CommitGatedDeltaArguments } from "./commit-gated-delta.ts";
export { commitCausalConv1d } from "./commit-causal-conv1d.ts";
export type { CommitCausalConv1dArguments } from "./commit-causal-conv1d.ts";
