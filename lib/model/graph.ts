/**
 * The ops of a model. For token ids:
 *
 *     h = embedding[ids]
 *     each layer changes h as its family defines
 *     logits = output(norm(h)), only of the wanted rows
 *
 * The parts of layers are defined here, their order and norms in `families/`.
 */
import { attention, combineExperts, embedding, expertLinear, linear, rmsNorm, route, siluMul } from "../ops/functions.ts";
import type { Products } from "../native/options.ts";
import type { EmbeddingArguments } from "../ops/embedding.ts";
import type { Indices } from "../ops/indices.ts";
import type { Op } from "../ops/op.ts";
import { forwardBoth } from "../layer/gated-delta-net.ts";
import type { GatedDeltaNet } from "../layer/gated-delta-net.ts";
import type { DraftGroup } from "../states/draft-group.ts";
import type { PoolStep } from "../states/pool-step.ts";
import type { StepPlaceholder } from "../states/step-placeholder.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Activations, ActivationViews, DenseViews } from "./activations.ts";
import { bestOp } from "./best-memory.ts";
import type { WantedBest } from "./best-memory.ts";
import type { PartTensors } from "./families/family.ts";
import type { ModelConfig } from "./model-config.ts";
import type { AttentionWeights, DenseMlp, Mixture, Mlp, ModelWeights } from "./model-weights.ts";
import type { LayerPages, PagePool } from "./page-pool.ts";

/** Rows whose logits, or hidden states, are wanted. */
export interface WantedRows {
  /** Ascending. */
  readonly rows: readonly number[];
  /** `[count, vocabulary]` or `[count, hidden]` each: the memory for the rows' results, one after another. */
  readonly outs: readonly Tensor[];
  /** For logits: the rows whose largest logits are also wanted. */
  readonly best?: readonly WantedBest[] | undefined;
}

/** Some tokens of some sequences in one pass through the layers. */
export interface PassInputs {
  /** Number of all tokens. */
  readonly tokens: number;
  /** `[tokens]`; id32 for ids that an earlier op finds. */
  readonly ids: Indices | Tensor<"id32">;
  /** `[sequences + 1]`: row offsets of the sequences. */
  readonly cuSeqlens: Int32Array;
  /** `[sequences · pagesPerSequence]`. */
  readonly pageTable: Indices;
  /** `[sequences]`: number of earlier tokens in the pages. */
  readonly pastTokens: Indices;
  readonly step: PoolStep | StepPlaceholder;
  /** Whether each sequence of the step has one token: mixers then use their fused step, which has the same bits. */
  readonly decode: boolean;
  /** Drafts to verify; their sequences come after those of the step. */
  readonly drafts?: DraftGroup | undefined;
  /** How matrices are multiplied, by the role of the tokens, which is the same for all. @default "rows" */
  readonly products?: Products | undefined;
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
    const { family, embedding: { activations: _, ...table }, layers } = this.#weights;
    const views = this.#activations.views(inputs.tokens);
    const ops = [embedding({ ...table, ...idsOf(inputs.ids), out: views.hidden })];
    let attentionLayer = 0;
    const { hidden, normed, spare } = views;
    for (const { weights, mixer } of layers) {
      const pages = mixer === undefined ? this.#pages.layers[attentionLayer++] : undefined;
      ops.push(...family.ops(weights, {
        hidden,
        normed,
        spare,
        norm: (x, weight, out) => this.norm(x, weight, out),
        mix: (part) => this.mix(mixer!, part, inputs),
        attend: (attention, part) => this.attend(attention, part, pages!, inputs, views),
        mlp: (mlp, part) => this.mlp(mlp, part, inputs, views),
      }));
    }
    ops.push(...this.finalNorm(inputs.hidden, views), ...this.output(inputs, views));
    return ops;
  }

  protected norm(x: Tensor, weight: Tensor, out: Tensor): Op {
    return rmsNorm({ x, weight, out, weightForm: this.#weights.normForm, eps: this.#config.normEps });
  }

  protected mix(mixer: GatedDeltaNet, { x: hidden, out, residual }: PartTensors, { cuSeqlens, step, decode, drafts, products }: PassInputs): Op[] {
    const common = { hidden, out, residual, step, products };
    if (drafts !== undefined) {
      const steps = cuSeqlens.subarray(0, cuSeqlens.length - drafts.drafts.length);
      return mixer[forwardBoth]({ ...common, step: step as PoolStep, cuSeqlens: steps, decode, drafts });
    }
    return decode ? mixer.decode(common) : mixer.forward({ ...common, cuSeqlens });
  }

  protected attend(weights: AttentionWeights, { x, out, residual }: PartTensors, pages: LayerPages, inputs: PassInputs, views: ActivationViews): Op[] {
    const { attention: { norm, rotaryDim, ropeTheta }, normEps } = this.#config;
    const { query, queryHeads, outputGate, key, keyHeads, value, valueHeads, attended, attendedHeads } = views;
    const { cuSeqlens, pageTable, pastTokens, products } = inputs;
    const byHead = norm === "head";
    // Whole projections are normed from scratch memory that later ops overwrite.
    const projections = byHead
      ? [linear({ x, ...weights.query, out: query, products }), linear({ x, ...weights.key, out: key, products })]
      : [
        linear({ x, ...weights.query, out: attended, products }),
        this.norm(attended, weights.queryNorm, query),
        linear({ x, ...weights.key, out: value, products }),
        this.norm(value, weights.keyNorm, key),
      ];
    return [
      ...projections,
      linear({ x, ...weights.value, out: value, products }),
      attention({
        query: queryHeads,
        key: keyHeads,
        value: valueHeads,
        gate: outputGate,
        queryNorm: byHead ? weights.queryNorm : undefined,
        keyNorm: byHead ? weights.keyNorm : undefined,
        weightForm: this.#weights.normForm,
        normEps,
        rotaryDim,
        ropeTheta,
        keyPages: pages.keys,
        valuePages: pages.values,
        out: attendedHeads,
        cuSeqlens,
        pageTable,
        pastTokens,
        products,
      }),
      linear({ x: attended, ...weights.output, residual, out, products }),
    ];
  }

  protected mlp(weights: Mlp, part: PartTensors, { products }: PassInputs, views: ActivationViews): Op[] {
    return weights.kind === "dense" ? this.dense(weights, part, views.dense, products) : this.mixture(weights, part, views, products);
  }

  protected mixture(weights: Mixture, { x, out, residual }: PartTensors, views: ActivationViews, products: Products | undefined): Op[] {
    const { logits, ids, weights: shares, gateUp, gate, up, product, outputs, shared, sharedOutput, sharedFactor } = views.experts!;
    const { router, gateUp: matrices, down, shared: ofAll, sharedGate } = weights;
    const halves = matrices.length === 1 ? [gateUp] : [gate, up];
    return [
      linear({ x, ...router, out: logits, products }),
      route({ logits, ids, weights: shares, normalize: this.#config.experts!.normalized }),
      ...matrices.map((matrix, i) => expertLinear({ x, ...matrix, ids, out: halves[i]!, products })),
      siluMul({ gate, up, out: product }),
      expertLinear({ x: product, ...down, ids, out: outputs, products }),
      ...this.dense(ofAll, { x, out: sharedOutput }, shared, products),
      linear({ x, ...sharedGate, out: sharedFactor, products }),
      combineExperts({ experts: outputs, weights: shares, shared: sharedOutput, sharedGate: sharedFactor, residual, out }),
    ];
  }

  protected dense(weights: DenseMlp, { x, out, residual }: PartTensors, { gate, up }: DenseViews, products: Products | undefined): Op[] {
    return [
      linear({ x, ...weights.gate, out: gate, products }),
      linear({ x, ...weights.up, out: up, products }),
      siluMul({ gate, up, out: gate }),
      linear({ x: gate, ...weights.down, residual, out, products }),
    ];
  }

  /** The hidden states of the wanted rows. */
  protected finalNorm({ rows, outs }: WantedRows, views: ActivationViews): Op[] {
    const { x, ops } = this.picked(rows, views);
    for (const [out, start, end] of spansOf(outs)) ops.push(this.norm(x.slice(start, end), this.#weights.norm, out));
    return ops;
  }

  protected output({ logits: { rows, outs, best = [] }, products }: PassInputs, views: ActivationViews): Op[] {
    if (rows.length === 0) return [];
    const { x, ops } = this.picked(rows, views);
    const normed = views.normed.slice(0, rows.length);
    ops.push(this.norm(x, this.#weights.norm, normed));
    for (const [out, start, end] of spansOf(outs)) ops.push(linear({ x: normed.slice(start, end), ...this.#weights.output, out, products }));
    ops.push(...best.map(bestOp));
    return ops;
  }

  /** Some rows of the residual stream in consecutive memory, and the ops that gather them. */
  protected picked(rows: readonly number[], { hidden, spare }: ActivationViews): { x: Tensor; ops: Op[] } {
    const count = rows.length;
    const first = rows[0] ?? 0;
    // Consecutive rows are read in place.
    if (count === 0 || rows[count - 1]! - first === count - 1) return { x: hidden.slice(first, first + count), ops: [] };
    const x = spare.slice(0, count);
    return { x, ops: [embedding({ weight: hidden, ids: rows, out: x })] };
  }
}

/** The embedding's argument for such ids. */
function idsOf(ids: Indices | Tensor<"id32">): Pick<EmbeddingArguments, "ids" | "deviceIds"> {
  return isOnDevice(ids) ? { deviceIds: ids } : { ids };
}

function isOnDevice(ids: Indices | Tensor<"id32">): ids is Tensor<"id32"> {
  return "dtype" in ids && ids.dtype === "id32";
}

/** The wanted rows that belong to each tensor. */
function spansOf(outs: readonly Tensor[]): [out: Tensor, start: number, end: number][] {
  let at = 0;
  return outs.map((out) => {
    const start = at;
    at += out.shape[0]!;
    return [out, start, at];
  });
}
