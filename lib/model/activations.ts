/** Memory between a model's ops, allocated once for the most tokens that go through the layers at a time. */
import type { Device } from "../device/device.ts";
import { Scratch, type ScratchLayout } from "../layer/scratch.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { ModelConfig } from "./model-config.ts";

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
  /** `[tokens, heads, headDim]`: its queries. */
  readonly queryHeads: Tensor;
  /** `[tokens, heads, headDim]`: its gates, if attention is gated. */
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
  /** `[tokens, intermediate]`: the MLP's gate, then its product with `up`. */
  readonly gate: Tensor;
  /** `[tokens, intermediate]`. */
  readonly up: Tensor;
}

type Name = "hidden" | "normed" | "spare" | "query" | "key" | "value" | "attended" | "gate" | "up";

export type Activations = Scratch<Name, ActivationViews>;

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

function layoutOf({ hiddenSize, intermediateSize, layers, attention }: ModelConfig, dtype: FloatDType): ScratchLayout<Name, ActivationViews> {
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
        gate: rows(tensors.gate),
        up: rows(tensors.up),
      };
    },
  };
}
