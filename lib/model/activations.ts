/** Memory between a model's ops, allocated once, for the most tokens that go through the layers at a time. */
import type { Device } from "../device/device.ts";
import { Scratch, type Row, type ScratchLayout } from "../layer/scratch.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { ExpertsConfig, ModelConfig } from "./model-config.ts";

/** The activations of some tokens. */
export interface ActivationViews {
  /** `[tokens, hidden]`: the residual stream. */
  readonly hidden: Tensor;
  /** `[tokens, hidden]`: input of a layer's parts, or their output after its norm. */
  readonly normed: Tensor;
  /** `[tokens, hidden]`: output of a layer's parts before its norm; after the layers, the rows picked for the output. */
  readonly spare: Tensor;
  /** `[tokens, heads · headDim]`, or `[tokens, heads · 2 · headDim]` with each head's output gate after its query. */
  readonly query: Tensor;
  /** `[tokens, heads, headDim]`: the queries in {@link query}. */
  readonly queryHeads: Tensor;
  /** `[tokens, heads, headDim]`: the gates in {@link query}, if attention is gated. */
  readonly outputGate: Tensor | undefined;
  /** `[tokens, kvHeads · headDim]`, and the same as heads. */
  readonly key: Tensor;
  readonly keyHeads: Tensor;
  /** `[tokens, kvHeads · headDim]`, and the same as heads. */
  readonly value: Tensor;
  readonly valueHeads: Tensor;
  /** `[tokens, heads · headDim]`, and the same as heads: the output of attention. */
  readonly attended: Tensor;
  readonly attendedHeads: Tensor;
  /** The activations of dense MLPs. */
  readonly dense: DenseViews;
  /** The activations of mixtures of experts. */
  readonly experts: ExpertViews | undefined;
}

/** The activations of a dense MLP. */
export interface DenseViews {
  /** `[tokens, intermediate]`: the gate, then its product with `up`. */
  readonly gate: Tensor;
  /** `[tokens, intermediate]`. */
  readonly up: Tensor;
}

/** The activations of a mixture of experts. */
export interface ExpertViews {
  /** `[tokens, experts]`, f32, since nearly equal logits decide which experts a token has. */
  readonly logits: Tensor;
  /** `[tokens, k]`. */
  readonly ids: Tensor<"id32">;
  /** `[tokens, k]`, f32. */
  readonly weights: Tensor;
  /** `[tokens, k, 2 · intermediate]`: each expert's gate and then its up; the next two members are the halves. */
  readonly gateUp: Tensor;
  /** `[tokens, k, intermediate]`. */
  readonly gate: Tensor;
  /** `[tokens, k, intermediate]`. */
  readonly up: Tensor;
  /** `[tokens, k, intermediate]`: the product of both. */
  readonly product: Tensor;
  /** `[tokens, k, hidden]`, f32, since these outputs are not rounded before their sum. */
  readonly outputs: Tensor;
  /** The activations of the shared expert. */
  readonly shared: DenseViews;
  /** `[tokens, hidden]`, f32: the output of the shared expert. */
  readonly sharedOutput: Tensor;
  /** `[tokens, 1]`, f32: the factor of that output, before the sigmoid. */
  readonly sharedFactor: Tensor;
}

type Name = "hidden" | "normed" | "spare" | "query" | "key" | "value" | "attended" | "gate" | "up";
type ExpertName = "routerLogits" | "expertIds" | "expertWeights" | "expertGateUp" | "expertProduct" | "expertOutputs" | "sharedGate" | "sharedUp" | "sharedOutput" | "sharedFactor";

export type Activations = Scratch<Name, ActivationViews, ExpertName>;

/**
 * Allocates the memory.
 *
 * @param tokens the most tokens that go through the layers at a time.
 */
export function makeActivations(device: Device, config: ModelConfig, dtype: FloatDType, tokens: number): Activations {
  const made = new Scratch(device, layoutOf(config, dtype));
  made.reserve(tokens);
  return made;
}

function layoutOf({ hiddenSize, intermediateSize, layers, attention, experts }: ModelConfig, dtype: FloatDType): ScratchLayout<Name, ActivationViews, ExpertName> {
  const has = layers.includes("attention");
  // A model without attention layers needs no memory for them.
  const { heads, kvHeads, headDim, gated } = has ? attention : { heads: 0, kvHeads: 0, headDim: 0, gated: false };
  return {
    rows: {
      hidden: [dtype, hiddenSize],
      normed: [dtype, hiddenSize],
      spare: [dtype, hiddenSize],
      query: [dtype, (gated ? 2 : 1) * heads * headDim],
      key: [dtype, kvHeads * headDim],
      value: [dtype, kvHeads * headDim],
      attended: [dtype, heads * headDim],
      gate: [dtype, intermediateSize],
      up: [dtype, intermediateSize],
      ...(experts && expertRows(experts, hiddenSize, dtype)),
    },
    views(tensors, rows, start, end) {
      const tokens = end - start;
      const [query, key, value, attended] = [rows(tensors.query), rows(tensors.key), rows(tensors.value), rows(tensors.attended)];
      const asHeads = (tensor: Tensor, count: number): Tensor => (has ? tensor.reshape([tokens, count, headDim]) : tensor);
      // A head's output gate follows its query.
      const half = (offset: number): Tensor => query.view({ offset, shape: [tokens, heads, headDim], strides: [2 * heads * headDim, 2 * headDim, 1] });
      return {
        hidden: rows(tensors.hidden),
        normed: rows(tensors.normed),
        spare: rows(tensors.spare),
        query,
        queryHeads: gated ? half(0) : asHeads(query, heads),
        outputGate: gated ? half(headDim) : undefined,
        key,
        keyHeads: asHeads(key, kvHeads),
        value,
        valueHeads: asHeads(value, kvHeads),
        attended,
        attendedHeads: asHeads(attended, heads),
        dense: { gate: rows(tensors.gate), up: rows(tensors.up) },
        experts: experts && expertViews(experts, tensors as Required<typeof tensors>, rows),
      };
    },
  };
}

function expertRows({ count, perToken, intermediateSize, sharedIntermediateSize }: ExpertsConfig, hidden: number, dtype: FloatDType): Record<ExpertName, Row> {
  return {
    routerLogits: ["f32", count],
    expertIds: ["id32", perToken],
    expertWeights: ["f32", perToken],
    expertGateUp: [dtype, perToken, 2 * intermediateSize],
    expertProduct: [dtype, perToken, intermediateSize],
    expertOutputs: ["f32", perToken, hidden],
    sharedGate: [dtype, sharedIntermediateSize],
    sharedUp: [dtype, sharedIntermediateSize],
    sharedOutput: ["f32", hidden],
    sharedFactor: ["f32", 1],
  };
}

function expertViews({ intermediateSize }: ExpertsConfig, tensors: Readonly<Record<ExpertName, Tensor>>, rows: (tensor: Tensor) => Tensor): ExpertViews {
  const gateUp = rows(tensors.expertGateUp);
  return {
    logits: rows(tensors.routerLogits),
    ids: rows(tensors.expertIds) as Tensor<"id32">,
    weights: rows(tensors.expertWeights),
    gateUp,
    gate: gateUp.narrow(2, 0, intermediateSize),
    up: gateUp.narrow(2, intermediateSize, intermediateSize),
    product: rows(tensors.expertProduct),
    outputs: rows(tensors.expertOutputs),
    shared: { gate: rows(tensors.sharedGate), up: rows(tensors.sharedUp) },
    sharedOutput: rows(tensors.sharedOutput),
    sharedFactor: rows(tensors.sharedFactor),
  };
}
