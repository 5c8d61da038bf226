// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

import type { OpName } from "../ops/op-kind.ts";
import type { GatedDeltaArguments } from "../ops/gated-delta.ts";
import type { CausalConv1dArguments } from "../ops/causal-conv1d.ts";
import type { GatedRmsNormArguments } from "../ops/gated-rms-norm.ts";
import type { RmsNormArguments } from "../ops/rms-norm.ts";
import type { GatedDeltaStepArguments } from "../ops/gated-delta-step.ts";
import type { LinearArguments } from "../ops/linear.ts";
import type { AddArguments, SiluMulArguments } from "../ops/elementwise.ts";
import type { AttentionArguments } from "../ops/attention.ts";
import type { EmbeddingArguments } from "../ops/embedding.ts";
import type { RouteArguments } from "../ops/route.ts";
import type { ExpertLinearArguments } from "../ops/expert-linear.ts";
import type { CombineExpertsArguments } from "../ops/combine-experts.ts";
import type { TopKArguments } from "../ops/top-k.ts";
import type { CopySlotsArguments } from "../ops/copy-slots.ts";
import type { CommitGatedDeltaArguments } from "../ops/commit-gated-delta.ts";
import type { CommitCausalConv1dArguments } from "../ops/commit-causal-conv1d.ts";
import type { GatedDeltaNetInplaceArguments, GatedDeltaNetInplaceIdsArguments, SsmConvUpdateInplaceArguments, SsmConvUpdateInplaceIdsArguments } from "../ops/ggml.ts";

/** Adds an op that is made of arguments. */
export const add: unique symbol = Symbol("add");

/** The ops' functions as methods, each of which records an op. */
export abstract class PassOps {
  /** @internal */
  abstract [add](name: OpName, args: object): void;

  /** See {@link gatedDelta}. */
  gatedDelta(args: GatedDeltaArguments): void {
    this[add]("gatedDelta", args);
  }

  /** See {@link causalConv1d}. */
  causalConv1d(args: CausalConv1dArguments): void {
    this[add]("causalConv1d", args);
  }

  /** See {@link gatedRmsNorm}. */
  gatedRmsNorm(args: GatedRmsNormArguments): void {
    this[add]("gatedRmsNorm", args);
  }

  /** See {@link rmsNorm}. */
  rmsNorm(args: RmsNormArguments): void {
    this[add]("rmsNorm", args);
  }

  /** See {@link gatedDeltaStep}. */
  gatedDeltaStep(args: GatedDeltaStepArguments): void {
    this[add]("gatedDeltaStep", args);
  }

  /** See {@link linear}. */
  linear(args: LinearArguments): void {
    this[add]("linear", args);
  }

  /** See {@link add}. */
  add(args: AddArguments): void {
    this[add]("add", args);
  }

  /** See {@link attention}. */
  attention(args: AttentionArguments): void {
    this[add]("attention", args);
  }

  /** See {@link embedding}. */
  embedding(args: EmbeddingArguments): void {
    this[add]("embedding", args);
  }

  /** See {@link siluMul}. */
  siluMul(args: SiluMulArguments): void {
    this[add]("siluMul", args);
  }

  /** See {@link route}. */
  route(args: RouteArguments): void {
    this[add]("route", args);
  }

  /** See {@link expertLinear}. */
  expertLinear(args: ExpertLinearArguments): void {
    this[add]("expertLinear", args);
  }

  /** See {@link combineExperts}. */
  combineExperts(args: CombineExpertsArguments): void {
    this[add]("combineExperts", args);
  }

  /** See {@link topK}. */
  topK(args: TopKArguments): void {
    this[add]("topK", args);
  }

  /** See {@link copySlots}. */
  copySlots(args: CopySlotsArguments): void {
    this[add]("copySlots", args);
  }

  /** See {@link commitGatedDelta}. */
  commitGatedDelta(args: CommitGatedDeltaArguments): void {
    this[add]("commitGatedDelta", args);
  }

  /** See {@link commitCausalConv1d}. */
  commitCausalConv1d(args: CommitCausalConv1dArguments): void {
    this[add]("commitCausalConv1d", args);
  }

  /** See {@link gatedDeltaNetInplace}. */
  gatedDeltaNetInplace(args: GatedDeltaNetInplaceArguments): void {
    this[add]("gatedDeltaNetInplace", args);
  }

  /** See {@link gatedDeltaNetInplaceIds}. */
  gatedDeltaNetInplaceIds(args: GatedDeltaNetInplaceIdsArguments): void {
    this[add]("gatedDeltaNetInplaceIds", args);
  }

  /** See {@link ssmConvUpdateInplace}. */
  ssmConvUpdateInplace(args: SsmConvUpdateInplaceArguments): void {
    this[add]("ssmConvUpdateInplace", args);
  }

  /** See {@link ssmConvUpdateInplaceIds}. */
  ssmConvUpdateInplaceIds(args: SsmConvUpdateInplaceIdsArguments): void {
    this[add]("ssmConvUpdateInplaceIds", args);
  }
}
