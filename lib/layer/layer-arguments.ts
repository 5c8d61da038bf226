/** The arguments of a layer's methods. */

import type { FloatDType } from "../tensor/dtype.ts";
import type { Indices } from "../ops/indices.ts";
import type { CheckpointArguments } from "../ops/state-arguments.ts";
import type { DeltaRecords } from "../ops/recurrence-arguments.ts";
import type { PoolVerification } from "../states/pool-verification.ts";
import type { StatePool } from "../states/state-pool.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** What {@link GatedDeltaNet.load} needs beside the files. */
export interface GatedDeltaNetOptions {
  /** Index of the layer in the model, from 0. */
  readonly layer: number;
  /** Path or contents of `config.json`. Default: the `config` in the file's metadata, or `config.json` beside it. */
  readonly config?: string | object | undefined;
  /** Which of a {@link StatePool}'s layers holds this mixer's states. May be left out for pools of one layer. */
  readonly poolLayer?: number | undefined;
  /** Dtype of the activations between the ops; `f32` by default. Weights stay in the dtype that they are stored in. */
  readonly dtype?: FloatDType | undefined;
}

/** The slots of one forward pass, as `pool.step(handles)` gives them: one of each for every sequence. */
export interface StepSlots {
  readonly readSlots: Indices;
  readonly writeSlots: Indices;
  /** States on the way that are kept, for ragged batches: not by `decode` and `mixStep`. */
  readonly checkpoints?: CheckpointArguments | undefined;
}

/** Where a call's states come from and go to. */
export interface StateArguments {
  readonly pool: StatePool;
  readonly step: StepSlots;
}

/** Arguments of {@link GatedDeltaNet.forward}. */
export interface ForwardArguments extends StateArguments {
  /** `[tokens, hidden]`, the sequences' tokens one after another. */
  readonly hidden: Tensor;
  /** `[tokens, hidden]`, in the layer's dtype or f32. */
  readonly out: Tensor;
  /** `[sequences + 1]`, ending in tokens. Absent: one sequence. */
  readonly cuSeqlens?: Indices | undefined;
}

/** Arguments of {@link GatedDeltaNet.verify}. */
export interface VerifyArguments {
  /** `[tokens, hidden]`, the sequences' drafted tokens one after another. */
  readonly hidden: Tensor;
  /** `[tokens, hidden]`, in the layer's dtype or f32. */
  readonly out: Tensor;
  readonly pool: StatePool;
  /** What `pool.verify` gave; its activation dtype is the layer's. */
  readonly verification: PoolVerification;
}

/** Arguments of {@link GatedDeltaNet.decode}. */
export interface DecodeArguments extends StateArguments {
  /** `[sequences, hidden]`. */
  readonly hidden: Tensor;
  /** `[sequences, hidden]`, in the layer's dtype or f32. */
  readonly out: Tensor;
}

/** Arguments of {@link GatedDeltaNet.mixStep}: what the projections of one token of each sequence gave. */
export interface MixStepArguments extends StateArguments {
  /** `[tokens, conv channels]`, in the layer's dtype: query, key and value side by side, before the convolution. */
  readonly qkv: Tensor;
  /** `[tokens, value channels]` or `[tokens, value heads, value dim]`, in the layer's dtype. */
  readonly z: Tensor;
  /** `[tokens, value heads]`, in the layer's dtype or f32. */
  readonly a: Tensor;
  /** `[tokens, value heads]`, in the layer's dtype or f32. */
  readonly b: Tensor;
  /** `[tokens, value channels]` or `[tokens, value heads, value dim]`: what `out_proj` is to be applied to. */
  readonly out: Tensor;
}

/** Arguments of {@link GatedDeltaNet.mix}. */
export interface MixArguments extends MixStepArguments {
  /** `[sequences + 1]`, ending in tokens. Absent: one sequence. */
  readonly cuSeqlens?: Indices | undefined;
  /** Kept for {@link commitGatedDelta}; `qkv` is the convolution's record and must then stay as it is. @default none */
  readonly records?: DeltaRecords | undefined;
  /** Slots for the states after each token, newest first; see {@link gatedDelta}. @default none */
  readonly snapshotSlots?: Indices | undefined;
}
