/**
 * The ops of a dense Qwen3.5 text model (transformers, `modeling_qwen3_5.py`). For token ids:
 *
 *     h = embedding[ids]
 *     each layer:  h = h + mixing(norm(h))                    a Gated DeltaNet, or attention
 *                  h = h + down(silu(gate(n)) · up(n)),       n = norm(h)
 *     logits = output(norm(h)), of the wanted rows alone
 *
 * Residuals are added inside the last product of each part, before its one rounding.
 */
import { attention, embedding, linear, rmsNorm, siluMul } from "../ops/functions.ts";
import type { Indices } from "../ops/indices.ts";
import type { Op } from "../ops/op.ts";
import { forwardBoth } from "../layer/gated-delta-net.ts";
import type { DraftGroup } from "../states/draft-group.ts";
import type { PoolStep } from "../states/pool-step.ts";
import type { StepPlaceholder } from "../states/step-placeholder.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Activations, ActivationViews } from "./activations.ts";
import type { ModelConfig } from "./model-config.ts";
import type { AttentionWeights, LayerFrame, ModelWeights } from "./model-weights.ts";
import type { LayerPages, PagePool } from "./page-pool.ts";

/** Rows whose logits, or hidden states, are wanted. */
export interface WantedRows {
  /** Ascending; empty where none are. */
  readonly rows: readonly number[];
  /** `[count, vocabulary]`, or `[count, hidden]`, each: where those of the rows go, one after another. */
  readonly outs: readonly Tensor[];
}

/** Some tokens of some sequences, on their way through the layers once. */
export interface PassInputs {
  /** Tokens in all. */
  readonly tokens: number;
  /** `[tokens]`. */
  readonly ids: Indices;
  /** `[sequences + 1]`: each sequence's rows. */
  readonly cuSeqlens: Int32Array;
  /** `[sequences · pagesPerSequence]`. */
  readonly pageTable: Indices;
  /** `[sequences]`: tokens that the pages hold already. */
  readonly pastTokens: Indices;
  readonly step: PoolStep | StepPlaceholder;
  /** Whether each sequence of the step has one token, for which the mixers have a fused step of the same bits. */
  readonly decode: boolean;
  /** Drafts that are verified; their sequences come after those of the step. */
  readonly drafts?: DraftGroup | undefined;
  readonly logits: WantedRows;
  readonly hidden: WantedRows;
}

/** A model's weights and memory, and the ops over them. */
export class ModelGraph {
  readonly #config: ModelConfig;
  readonly #weights: ModelWeights;
  readonly #activations: Activations;
  readonly #pages: PagePool;

  constructor(config: ModelConfig, weights: ModelWeights, activations: Activations, pages: PagePool) {
    this.#config = config;
    this.#weights = weights;
    this.#activations = activations;
    this.#pages = pages;
  }

  /** The ops of one pass, in order. */
  ops(inputs: PassInputs): Op[] {
    const { embedding: table, layers } = this.#weights;
    const views = this.#activations.views(inputs.tokens);
    const ops = [embedding({ ...table, ids: inputs.ids, out: views.hidden })];
    let attentionLayer = 0;
    for (const layer of layers) {
      ops.push(this.norm(views.hidden, layer.inputNorm, views.normed));
      if (layer.attention === undefined) ops.push(...this.mix(layer, inputs, views));
      else ops.push(...this.attend(layer.attention, this.#pages.layers[attentionLayer++]!, inputs, views));
      ops.push(...this.mlp(layer, views));
    }
    ops.push(...this.finalNorm(inputs.hidden, views), ...this.output(inputs.logits, views));
    return ops;
  }

  protected norm(x: Tensor, weight: Tensor, out: Tensor): Op {
    return rmsNorm({ x, weight, out, weightForm: this.#weights.normForm, eps: this.#config.normEps });
  }

  protected mix({ mixer }: Extract<ModelWeights["layers"][number], { attention?: undefined }>, inputs: PassInputs, views: ActivationViews): Op[] {
    const { cuSeqlens, step, decode, drafts } = inputs;
    const { normed: hidden, hidden: out } = views;
    const common = { hidden, out, residual: out, step };
    if (drafts !== undefined) {
      const steps = cuSeqlens.subarray(0, cuSeqlens.length - drafts.drafts.length);
      return mixer[forwardBoth]({ ...common, step: step as PoolStep, cuSeqlens: steps, decode, drafts });
    }
    return decode ? mixer.decode(common) : mixer.forward({ ...common, cuSeqlens });
  }

  protected attend(weights: AttentionWeights, pages: LayerPages, inputs: PassInputs, views: ActivationViews): Op[] {
    const { rotaryDim, ropeTheta } = this.#config.attention;
    const { normed: x, hidden, queryGate, query, outputGate, key, keyHeads, value, valueHeads, attended, attendedHeads } = views;
    const { cuSeqlens, pageTable, pastTokens } = inputs;
    return [
      linear({ x, ...weights.query, out: queryGate }),
      linear({ x, ...weights.key, out: key }),
      linear({ x, ...weights.value, out: value }),
      attention({
        query,
        key: keyHeads,
        value: valueHeads,
        gate: outputGate,
        queryNorm: weights.queryNorm,
        keyNorm: weights.keyNorm,
        weightForm: this.#weights.normForm,
        normEps: this.#config.normEps,
        rotaryDim,
        ropeTheta,
        keyPages: pages.keys,
        valuePages: pages.values,
        out: attendedHeads,
        cuSeqlens,
        pageTable,
        pastTokens,
      }),
      linear({ x: attended, ...weights.output, residual: hidden, out: hidden }),
    ];
  }

  protected mlp(layer: LayerFrame, { hidden, normed, gate, up }: ActivationViews): Op[] {
    return [
      this.norm(hidden, layer.postNorm, normed),
      linear({ x: normed, ...layer.gate, out: gate }),
      linear({ x: normed, ...layer.up, out: up }),
      siluMul({ gate, up, out: gate }),
      linear({ x: gate, ...layer.down, residual: hidden, out: hidden }),
    ];
  }

  /** The hidden states of the wanted rows. */
  protected finalNorm({ rows, outs }: WantedRows, views: ActivationViews): Op[] {
    const { x, ops } = this.picked(rows, views);
    for (const [out, start, end] of spansOf(outs)) ops.push(this.norm(x.slice(start, end), this.#weights.norm, out));
    return ops;
  }

  protected output({ rows, outs }: WantedRows, views: ActivationViews): Op[] {
    if (rows.length === 0) return [];
    const { x, ops } = this.picked(rows, views);
    const normed = views.normed.slice(0, rows.length);
    ops.push(this.norm(x, this.#weights.norm, normed));
    for (const [out, start, end] of spansOf(outs)) ops.push(linear({ x: normed.slice(start, end), ...this.#weights.output, out }));
    return ops;
  }

  /** Some rows of the residual stream, side by side, and what brings them there. */
  protected picked(rows: readonly number[], { hidden, picked }: ActivationViews): { x: Tensor; ops: Op[] } {
    const count = rows.length;
    const first = rows[0] ?? 0;
    // Rows side by side are read where they lie.
    if (count === 0 || rows[count - 1]! - first === count - 1) return { x: hidden.slice(first, first + count), ops: [] };
    const x = picked.slice(0, count);
    return { x, ops: [embedding({ weight: hidden, ids: rows, out: x })] };
  }
}

/** Which of the wanted rows go to each of their tensors. */
function spansOf(outs: readonly Tensor[]): [out: Tensor, start: number, end: number][] {
  let at = 0;
  return outs.map((out) => {
    const start = at;
    at += out.shape[0]!;
    return [out, start, at];
  });
}
