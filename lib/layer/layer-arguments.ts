/** The arguments of a layer's methods. */

import type { Products } from "../native/options.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Indices } from "../ops/indices.ts";
import type { Draft } from "../states/draft.ts";
import type { DraftGroup } from "../states/draft-group.ts";
import type { PoolStep } from "../states/pool-step.ts";
import type { StepPlaceholder } from "../states/step-placeholder.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** Options of {@link GatedDeltaNet.load}. */
export interface GatedDeltaNetOptions {
  /** Index of the layer in the model, from 0. */
  readonly layer: number;
  /**
   * Path or contents of `config.json`. Default: the `config` in the file's metadata, or `config.json` in the file's folder, which takes
   * precedence over the metadata of `model.safetensors`.
   */
  readonly config?: string | object | undefined;
  /** The layer of a {@link StatePool} that holds this mixer's states. Optional for pools of one layer. */
  readonly poolLayer?: number | undefined;
  /** Dtype of the activations between the ops; `f32` by default. Weights stay in their stored dtype. */
  readonly dtype?: FloatDType | undefined;
}

/** {@link GatedDeltaNetOptions}, checked and complete. */
export interface CheckedLoadOptions extends GatedDeltaNetOptions {
  readonly dtype: FloatDType;
}

/** Options of {@link GatedDeltaNet.loadAll}, for every layer. */
export type LoadAllOptions = Pick<GatedDeltaNetOptions, "config" | "dtype">;

/** The pass whose states a call uses: a step (in a plan, a placeholder) or a draft. */
export type PassArguments =
  | {
      /** The step of the pool or, in a plan, its placeholder. */
      readonly step: PoolStep | StepPlaceholder;
      /** Cannot be combined with `step`. */
      readonly draft?: undefined;
    }
  | {
      /** The draft of the tokens. */
      readonly draft: Draft;
      /** Cannot be combined with `draft`. */
      readonly step?: undefined;
    };

/** The step of one token of each sequence. */
export interface StepArguments {
  /** The step of the pool or, in a plan, its placeholder. */
  readonly step: PoolStep | StepPlaceholder;
}

/** Row offsets of a ragged batch. */
export interface BatchArguments {
  /** `[sequences + 1]`, from 0, not decreasing, ending in tokens. @default one sequence, or those of the draft */
  readonly cuSeqlens?: Indices | undefined;
}

/** Input and output of a whole mixer. */
export interface HiddenArguments {
  /** `[tokens, hidden]`, in the layer's dtype: the tokens of all sequences, one sequence after another. */
  readonly hidden: Tensor;
  /** Written: `[tokens, hidden]`, in the layer's dtype or f32. May be `hidden`. */
  readonly out: Tensor;
  /** `[tokens, hidden]`: added to the output of the last projection before it is rounded. May be `out`. */
  readonly residual?: Tensor | undefined;
  /** How a GPU multiplies by the projections' matrices, as `linear` takes it. @default "rows" */
  readonly products?: Products | undefined;
}

/** Projections of some tokens. */
export interface ProjectedArguments {
  /**
   * `[tokens, conv channels]`, in the layer's dtype: query, key and value side by side, before the convolution. With a
   * draft it is `draft.convInput(layer.poolLayer, layer.dtype)`.
   */
  readonly qkv: Tensor;
  /** `[tokens, value channels]` or `[tokens, value heads, value dim]`, in the layer's dtype. */
  readonly z: Tensor;
  /**
   * `[tokens, value heads]`, in the layer's dtype or f32; if each key dimension has a gate,
   * `[tokens, value heads · key dim]` or `[tokens, value heads, key dim]`.
   */
  readonly a: Tensor;
  /** `[tokens, value heads]`, in the layer's dtype or f32. */
  readonly b: Tensor;
  /** Written: `[tokens, value channels]` or `[tokens, value heads, value dim]`: the input of `out_proj`. */
  readonly out: Tensor;
}

/** Arguments of {@link GatedDeltaNet.forward}. */
export type ForwardArguments = HiddenArguments & BatchArguments & PassArguments;

/** Arguments of {@link GatedDeltaNet.decode}, one token of each sequence. */
export type DecodeArguments = HiddenArguments & StepArguments;

/** Arguments of {@link GatedDeltaNet.mix}. */
export type MixArguments = ProjectedArguments & BatchArguments & PassArguments;

/** Arguments of {@link GatedDeltaNet.mixStep}, one token of each sequence. */
export type MixStepArguments = ProjectedArguments & StepArguments;

/** Sequences that step, in the first rows, and sequences that verify drafts, in the rows after them. */
export interface BothArguments extends HiddenArguments {
  /** The step of the first sequences, of which there may be none. */
  readonly step: PoolStep;
  /** `[steps + 1]`: row offsets of the sequences that step. */
  readonly cuSeqlens: Int32Array;
  /** Whether each of the sequences that step has one token. */
  readonly decode: boolean;
  readonly drafts: DraftGroup;
}
