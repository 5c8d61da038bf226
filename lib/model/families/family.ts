/**
 * A family of models: the reading of its configuration, the tensors of its layers and their ops. The common parts of all families
 * (embedding, final norm, output, the loop over layers, pages, states) are elsewhere and do not depend on the family.
 */
import type { ConfigPlace } from "../../checkpoint/config-errors.ts";
import type { Settings } from "../../checkpoint/config-settings.ts";
import type { TensorSource } from "../../checkpoint/source.ts";
import type { TensorLoader } from "../../checkpoint/tensor-loader.ts";
import type { WeightForm } from "../../native/options.ts";
import type { Op } from "../../ops/op.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { LayerType, ModelConfig } from "../model-config.ts";
import type { AttentionWeights, WithMlp, Mlp } from "../model-weights.ts";

/** A configuration without two values that also depend on the checkpoint. */
export type ParsedConfig = Omit<ModelConfig, "tied" | "eosTokens"> & {
  /** Whether embeddings are tied: the whole model's `tie_word_embeddings`, then the text model's. */
  readonly tied: readonly boolean[];
};

/** A `config.json`: the text model's part first; if that part is nested, then the whole. */
export type ConfigParts = readonly [Record<string, unknown>, ...Record<string, unknown>[]];

/** A family of models, whose layers have weights of the type `Layer`. */
export interface Family<Layer extends WithMlp = WithMlp> {
  /** The family's name in {@link ModelConfig.family}: a `model_type` of transformers. */
  readonly name: string;
  /** The family's name in messages, with an article. */
  readonly title: string;
  /** Every `model_type` that the family's configurations and their parts may have. */
  readonly modelTypes: readonly string[];
  /** How each setting is treated; values that are not computed are refused before {@link parse}. */
  readonly settings: Settings;
  /** Names of tensors of other parts of released models, which are not loaded. */
  readonly elsewhere: RegExp;
  /** Reads a configuration. */
  parse(parts: ConfigParts, place: ConfigPlace): ParsedConfig;
  /**
   * The stored form of all norms outside mixers.
   *
   * @param root the prefix of the text model's names.
   * @param pause awaited between layers.
   */
  normForm(loader: TensorLoader, root: string, config: ParsedConfig, pause: () => Promise<void>): Promise<WeightForm>;
  /** The prefix of the names of a layer's Gated DeltaNet, given the `prefix` of the layer's names. */
  mixerPrefix(source: TensorSource, prefix: string): string;
  /** Looks up the weights of the layer `index`, except for those of its Gated DeltaNet. */
  layer(loader: TensorLoader, prefix: string, config: ParsedConfig, type: LayerType, index: number): Layer;
  /** The ops of a layer, which change {@link LayerPass.hidden} in place. */
  ops(layer: Layer, pass: LayerPass): Op[];
}

/** The input and output of a part of a layer. */
export interface PartTensors {
  /** `[tokens, hidden]`. */
  readonly x: Tensor;
  /** `[tokens, hidden]`: written. It may be `residual` itself, but not `x`. */
  readonly out: Tensor;
  /** `[tokens, hidden]`: added to the part's output before the sum is rounded. @default nothing */
  readonly residual?: Tensor | undefined;
}

/** Some tokens in a layer, and the parts of layers. */
export interface LayerPass {
  /** `[tokens, hidden]`: the residual stream. */
  readonly hidden: Tensor;
  /** `[tokens, hidden]`: scratch, such as for the input of a part. */
  readonly normed: Tensor;
  /** `[tokens, hidden]`: scratch, such as for the output of a part before its norm. */
  readonly spare: Tensor;
  /** An RMS norm in the model's form. */
  norm(x: Tensor, weight: Tensor, out: Tensor): Op;
  /** The layer's Gated DeltaNet. */
  mix(part: PartTensors): Op[];
  attend(weights: AttentionWeights, part: PartTensors): Op[];
  mlp(weights: Mlp, part: PartTensors): Op[];
}
