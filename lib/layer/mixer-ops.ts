/**
 * The ops of a mixer over its weights and the tensors of a call:
 *
 *     qkv, z, a, b = projections of h
 *     q | k | v    = silu(causal conv of qkv)
 *     o            = gated delta rule of q, k, v
 *     out          = output projection of (norm.weight · o · rsqrt(mean o² + eps) · act(z))
 */

import type { Indices } from "../ops/indices.ts";
import { causalConv1d } from "../ops/causal-conv1d.ts";
import { gatedDelta } from "../ops/gated-delta.ts";
import { gatedDeltaStep } from "../ops/gated-delta-step.ts";
import { gatedRmsNorm } from "../ops/gated-rms-norm.ts";
import type { LayerStates } from "../ops/layer-states.ts";
import { linear } from "../ops/linear.ts";
import type { Products } from "../native/options.ts";
import type { Op } from "../ops/op.ts";
import { isTensor, type Tensor } from "../tensor/tensor.ts";
import type { LayerConfig } from "../checkpoint/mixer-config.ts";
import type { ProjectedArguments } from "./layer-arguments.ts";
import type { MixerViews } from "./mixer-scratch.ts";
import type { LayerWeights, Projection } from "./weights.ts";

/** The memory for the projections of some tokens. */
export type Projected = Pick<MixerViews, "qkv" | "z" | "a" | "b" | "aDown" | "zDown">;

/** Makes the ops of one mixer. The views of each tensor are made once. */
export class MixerOps {
  readonly #weights: LayerWeights;
  readonly #config: LayerConfig;
  readonly #heads = new WeakMap<Tensor, Tensor>();
  readonly #columns = new WeakMap<Tensor, readonly Tensor[]>();

  constructor(weights: LayerWeights, config: LayerConfig) {
    this.#weights = weights;
    this.#config = config;
  }

  /** The projections of the hidden states `[tokens, hidden]`. */
  project(hidden: Tensor, { qkv, z, a, b, aDown, zDown }: Projected, products?: Products): Op[] {
    const weights = this.#weights;
    const columns = this.#columnsOf(qkv);
    return [
      ...weights.qkv.map((matrix, i) => linear({ x: hidden, ...matrix, out: columns[i] ?? qkv, products })),
      ...projection(hidden, weights.z, z, zDown, products),
      ...projection(hidden, weights.a, a, aDown, products),
      linear({ x: hidden, ...weights.b, out: b, products }),
    ];
  }

  /** Convolution, gated delta rule and gated norm of a ragged batch as separate ops. */
  mix(
    { qkv, z, a, b, out }: ProjectedArguments,
    { conv, query, key, value, delta }: Pick<MixerViews, "conv" | "query" | "key" | "value" | "delta">,
    cuSeqlens: Indices | undefined,
    states: LayerStates,
  ): Op[] {
    const weights = this.#weights;
    return [
      causalConv1d({ x: qkv, weight: weights.conv, bias: weights.convBias, out: conv, cuSeqlens, states }),
      gatedDelta({ query, key, value, gate: this.#asGates(a), beta: b, out: delta, cuSeqlens, states, ...this.#gates() }),
      gatedRmsNorm({ x: delta, z: this.#asHeads(z), weight: weights.norm, out: this.#asHeads(out), ...this.#norm() }),
    ];
  }

  /** {@link mix} for one token of each sequence, as one op. */
  mixStep({ qkv, z, a, b, out }: ProjectedArguments, states: LayerStates): Op[] {
    const weights = this.#weights;
    const { eps: normEps, activation: normActivation } = this.#norm();
    return [
      gatedDeltaStep({
        x: qkv,
        convWeight: weights.conv,
        convBias: weights.convBias,
        gate: this.#asGates(a),
        beta: b,
        z: this.#asHeads(z),
        normWeight: weights.norm,
        out: this.#asHeads(out),
        keyHeads: this.#config.keyHeads,
        states,
        normEps,
        normActivation,
        ...this.#gates(),
      }),
    ];
  }

  /** The output projection of `[tokens, value channels]`, plus the residual, if any. */
  output(normed: Tensor, out: Tensor, residual: Tensor | undefined, products?: Products): Op {
    return linear({ x: normed, ...this.#weights.out, residual, out, products });
  }

  #gates() {
    const { aLog, aLogForm, dtBias } = this.#weights;
    const { gateDims, gateBound, betaForm, headMap } = this.#config;
    const gateForm = gateBound === undefined ? aLogForm : "raw-bounded";
    return { aLog, dtBias, gateForm, gateBound, gateDims, betaForm, headMap, qkNorm: "l2", qkNormEps: 1e-6 } as const;
  }

  #norm() {
    return { eps: this.#config.normEps, activation: this.#config.outputGate } as const;
  }

  /** `[tokens, value channels]` as heads; the op checks other shapes. */
  #asHeads(tensor: Tensor): Tensor {
    return this.#split(tensor, this.#config.valueDim);
  }

  /** `[tokens, gates]`, as heads if each key dimension has a gate. */
  #asGates(tensor: Tensor): Tensor {
    return this.#config.gateDims === "key" ? this.#split(tensor, this.#config.keyDim) : tensor;
  }

  #split(tensor: Tensor, dim: number): Tensor {
    if (!isTensor(tensor) || tensor.shape.length !== 2) return tensor;
    const known = this.#heads.get(tensor);
    if (known) return known;
    const view = tensor.reshape([tensor.shape[0] ?? 0, this.#config.valueHeads, dim]);
    this.#heads.set(tensor, view);
    return view;
  }

  /** The columns of `qkv` written by each of several projections. */
  #columnsOf(qkv: Tensor): readonly Tensor[] {
    const matrices = this.#weights.qkv;
    if (matrices.length === 1) return [qkv];
    const known = this.#columns.get(qkv);
    if (known) return known;
    const [tokens = 0, channels = 0] = qkv.shape;
    let offset = 0;
    const views = matrices.map(({ weight }) => {
      const width = weight.shape[0] ?? 0;
      const view = qkv.view({ offset, shape: [tokens, width], strides: [channels, 1] });
      offset += width;
      return view;
    });
    this.#columns.set(qkv, views);
    return views;
  }
}

function projection(hidden: Tensor, { matrix, down }: Projection, out: Tensor, between: Tensor | undefined, products?: Products): Op[] {
  if (down === undefined || between === undefined) return [linear({ x: hidden, ...matrix, out, products })];
  return [linear({ x: hidden, ...down, out: between, products }), linear({ x: between, ...matrix, out, products })];
}
