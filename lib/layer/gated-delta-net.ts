/**
 * A whole Gated DeltaNet mixer (transformers, `Qwen3_5GatedDeltaNet` and `Qwen3NextGatedDeltaNet`), out of a Hugging
 * Face checkpoint. For hidden states h `[tokens, hidden]`:
 *
 *     qkv, z, a, b = projections of h
 *     q | k | v    = silu(causal conv of qkv)
 *     o            = gated delta rule of q, k, v with decay exp(-exp(A_log) softplus(a + dt_bias)), beta sigmoid(b),
 *                    q and k to unit length (eps 1e-6), q scaled by Dk^-1/2
 *     out          = out_proj(norm.weight * o * rsqrt(mean o² + eps) * act(z))
 *
 * Gates and everything between the delta rule and the norm's product are float32 whatever the activations are.
 */

import { invalid } from "../arguments/checks.ts";
import { asTensor, expectDType, expectShape } from "../tensor/expect.ts";
import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { DisposedError, FileError, GatedDeltaError, ShapeError } from "../errors.ts";
import { asDevice } from "../tensor/device-handle.ts";
import { causalConv1d } from "../ops/causal-conv1d.ts";
import { gatedDelta } from "../ops/gated-delta.ts";
import { gatedDeltaStep } from "../ops/gated-delta-step.ts";
import { gatedRmsNorm } from "../ops/gated-rms-norm.ts";
import type { LayerStates } from "../ops/layer-states.ts";
import { linear } from "../ops/linear.ts";
import type { Op } from "../ops/op.ts";
import { checkOptions } from "../arguments/options.ts";
import { reading } from "../arguments/reading.ts";
import { openCheckpoint } from "../safetensors/safetensors.ts";
import type { TensorSource } from "../safetensors/safetensors.ts";
import { isDraft } from "../states/draft.ts";
import { isStep } from "../states/pool-step.ts";
import type { StatePool } from "../states/state-pool.ts";
import { isPlaceholder } from "../states/step-placeholder.ts";
import { isTensor, type Tensor } from "../tensor/tensor.ts";
import type {
  DecodeArguments,
  ForwardArguments,
  GatedDeltaNetOptions,
  LoadAllOptions,
  MixArguments,
  MixStepArguments,
} from "./layer-arguments.ts";
import type { LayerConfig } from "./config.ts";
import { asKnown, expectEnd, rowsOf } from "./layer-checks.ts";
import { readLayerConfig } from "./read-config.ts";
import { takeScratch, type Scratch, type ScratchViews } from "./scratch.ts";
import { gatedDeltaLayers, loadWeights, type LayerWeights } from "./weights.ts";

const op = "GatedDeltaNet";

const schemas = () => require("./layer-schemas.ts") as typeof import("./layer-schemas.ts");

/** One layer's mixer on a device. Its methods make ops, which run where the caller puts them: see {@link forward}. */
export class GatedDeltaNet implements Disposable {
  readonly device: Device;
  /** Index of the layer in the model. */
  readonly layer: number;
  /** Sizes and options. */
  readonly config: LayerConfig;
  /** Dtype of the activations between the ops. */
  readonly dtype: FloatDType;
  /** Which of a pool's layers holds this mixer's states; undefined where that was not said, for pools of one layer. */
  readonly poolLayer: number | undefined;
  readonly #weights: LayerWeights;
  readonly #scratch: Scratch;
  readonly #heads = new WeakMap<Tensor, Tensor>();
  #disposed = false;

  private constructor(device: Device, weights: LayerWeights, config: LayerConfig, options: GatedDeltaNetOptions) {
    const { layer, dtype = "f32", poolLayer } = options;
    this.device = device;
    this.config = config;
    this.layer = layer;
    this.dtype = dtype;
    this.poolLayer = poolLayer;
    this.#weights = weights;
    this.#scratch = takeScratch(device, config, dtype);
  }

  /**
   * Loads one layer of a checkpoint: Qwen3.5's split projections or Qwen3-Next's interleaved ones, f32, f16 or bf16,
   * under any of the prefixes that checkpoints use.
   *
   * @param files a `.safetensors` file, an index (`model.safetensors.index.json`), the directory of either, or a list
   * of files.
   * @throws {FileError} for files that are missing, damaged, of other shapes, or without this layer; {@link DTypeError}
   * for weights of another dtype; {@link UnsupportedError} for quantised weights and unknown activations.
   */
  static load(device: Device, files: string | readonly string[], options: GatedDeltaNetOptions): GatedDeltaNet {
    const name = `${op}.load`;
    asDevice(name, device);
    const checked = checkOptions(schemas().loadOptions, name, options);
    using source = openCheckpoint(files);
    return GatedDeltaNet.#load(device, source, checked);
  }

  /**
   * Loads the mixers of all Gated DeltaNet layers of a checkpoint, in order. The k-th of them has `poolLayer` k, for a
   * pool of as many layers. The checkpoint is opened once.
   *
   * @param files as for {@link load}.
   * @throws as {@link load}; nothing stays allocated then.
   * @example
   * const layers = GatedDeltaNet.loadAll(device, folder);
   * using pool = StatePool.create(device, { slots: 8, layers: layers.length, ...layers[0].stateShape });
   */
  static loadAll(device: Device, files: string | readonly string[], options: LoadAllOptions = {}): GatedDeltaNet[] {
    const name = `${op}.loadAll`;
    asDevice(name, device);
    const checked = checkOptions(schemas().loadAllOptions, name, options);
    using source = openCheckpoint(files);
    const loaded: GatedDeltaNet[] = [];
    try {
      for (const [poolLayer, layer] of gatedDeltaLayers(source.names).entries()) {
        loaded.push(GatedDeltaNet.#load(device, source, { ...checked, layer, poolLayer }));
      }
    } catch (error) {
      for (const layer of loaded) layer[Symbol.dispose]();
      throw error;
    }
    if (loaded.length > 0) return loaded;
    const expected = "a checkpoint with Gated DeltaNet layers, such as model.layers.0.linear_attn.A_log";
    throw new FileError(source.path, { op: name, expected, received: "none" });
  }

  static #load(device: Device, source: TensorSource, options: GatedDeltaNetOptions): GatedDeltaNet {
    const config = readLayerConfig(source, options.layer, options.config);
    return new GatedDeltaNet(device, loadWeights(device, source, options.layer, config), config, options);
  }

  /** The sizes that `StatePool.create` wants, for this layer or any like it. */
  get stateShape() {
    const { keyHeads, valueHeads, keyDim, valueDim, convWidth } = this.config;
    return { keyHeads, valueHeads, keyDim, valueDim, convWidth } as const;
  }

  /**
   * The ops that take any ragged batch of tokens through the layer: whole prompts, pieces of them, single tokens; or,
   * with `draft`, drafted tokens without changing any state. With f32 states, however a sequence is cut into calls and
   * whatever shares its batch, its bits are the same.
   *
   * The layers of a device share scratch memory: run the ops of one call as they come, before or after those of another.
   * Scratch grows with `tokens`; long prompts are best fed in pieces of some hundred.
   *
   * @throws {GatedDeltaError} for arguments that do not fit; nothing is made then.
   * @example
   * pool.run([state], (step) => layer.forward({ hidden, out, step }));
   */
  forward(args: ForwardArguments): Op[] {
    return this.#ops("forward", args, ["hidden", "out", "residual", "cuSeqlens", "step", "draft"], ({ hidden, out, residual, cuSeqlens, ...pass }) => {
      const tokens = this.#tokensOf("forward", hidden, out);
      const scratch = this.#scratch.views(tokens);
      // The projection's output is a draft's record of the convolution, so it goes where it stays until the commit.
      const { draft } = pass;
      const qkv = isDraft(draft) ? draft.convInput(this.#layerOf("forward", "draft", draft.pool), this.dtype) : scratch.qkv;
      if (draft !== undefined && qkv.shape[0] !== tokens) {
        const expected = `${qkv.shape[0]} tokens, as were drafted`;
        throw new ShapeError({ op: `${op}.forward`, argument: "hidden", expected, received: `${tokens}` });
      }
      return [
        ...this.#project(hidden, { ...scratch, qkv }),
        ...this.#mix("forward", { ...scratch, qkv, out: scratch.normed, cuSeqlens, ...pass }),
        linear({ x: scratch.normed, weight: this.#weights.out, residual, out }),
      ];
    });
  }

  /**
   * The ops that take one token of each sequence through the layer, everything between the projections in one fused
   * step. The bits are those of {@link forward}.
   *
   * @throws {GatedDeltaError} for arguments that do not fit; nothing is made then.
   */
  decode(args: DecodeArguments): Op[] {
    return this.#ops("decode", args, ["hidden", "out", "residual", "step"], ({ hidden, out, residual, step }) => {
      const tokens = this.#tokensOf("decode", hidden, out);
      const scratch = this.#scratch.views(tokens);
      return [
        ...this.#project(hidden, scratch),
        ...this.#mixStep("decode", { ...scratch, out: scratch.normed, step }),
        linear({ x: scratch.normed, weight: this.#weights.out, residual, out }),
      ];
    });
  }

  /**
   * The layer without its projections, for callers that have their own (quantised) matrix products: convolution, gated
   * delta rule and gated norm of a ragged batch.
   *
   * @throws {GatedDeltaError} for arguments that do not fit; nothing is made then.
   */
  mix(args: MixArguments): Op[] {
    const known = ["qkv", "z", "a", "b", "out", "cuSeqlens", "step", "draft"] as const;
    return this.#ops("mix", args, known, (given) => this.#mix("mix", given));
  }

  /**
   * {@link mix} for one token of each sequence, as one fused op with the same bits.
   *
   * @throws {GatedDeltaError} for arguments that do not fit; nothing is made then.
   */
  mixStep(args: MixStepArguments): Op[] {
    return this.#ops("mixStep", args, ["qkv", "z", "a", "b", "out", "step"], (given) => this.#mixStep("mixStep", given));
  }

  /** Frees weights and scratch as soon as no pending work needs them. Doing it again does nothing. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#scratch[Symbol.dispose]();
    for (const tensor of Object.values(this.#weights) as (Tensor | undefined)[]) tensor?.[Symbol.dispose]();
  }

  /** Makes a method's ops of its arguments, each of which is read once. */
  #ops<Arguments extends object>(
    method: string,
    args: Arguments,
    known: readonly (Arguments extends unknown ? keyof Arguments : never)[],
    make: (args: Arguments) => Op[],
  ): Op[] {
    this.#alive(method);
    const name = `${op}.${method}`;
    return reading(name, "", () => make(asKnown(name, args, known)));
  }

  #mix(method: string, { qkv, z, a, b, out, cuSeqlens, step, draft }: MixArguments): Op[] {
    const tokens = rowsOf(method, "qkv", qkv);
    expectEnd(`${op}.${method}`, cuSeqlens, tokens);
    const states = this.#statesOf(method, step, draft);
    const { conv, query, key, value, delta } = this.#scratch.views(tokens);
    const weights = this.#weights;
    return [
      causalConv1d({ x: qkv, weight: weights.conv, bias: weights.convBias, out: conv, cuSeqlens, states }),
      gatedDelta({ query, key, value, gate: a, beta: b, out: delta, cuSeqlens, states, ...this.#gates() }),
      gatedRmsNorm({ x: delta, z: this.#asHeads(z), weight: weights.norm, out: this.#asHeads(out), ...this.#norm() }),
    ];
  }

  #mixStep(method: string, { qkv, z, a, b, out, step }: MixStepArguments): Op[] {
    const weights = this.#weights;
    const { eps: normEps, activation: normActivation } = this.#norm();
    return [
      gatedDeltaStep({
        x: qkv,
        convWeight: weights.conv,
        convBias: weights.convBias,
        gate: a,
        beta: b,
        z: this.#asHeads(z),
        normWeight: weights.norm,
        out: this.#asHeads(out),
        keyHeads: this.config.keyHeads,
        states: this.#statesOf(method, step, undefined),
        normEps,
        normActivation,
        ...this.#gates(),
      }),
    ];
  }

  #project(hidden: Tensor, { qkv, z, a, b }: Pick<ScratchViews, "qkv" | "z" | "a" | "b">): Op[] {
    const weights = this.#weights;
    return [
      linear({ x: hidden, weight: weights.qkv, out: qkv }),
      linear({ x: hidden, weight: weights.z, out: z }),
      linear({ x: hidden, weight: weights.a, out: a }),
      linear({ x: hidden, weight: weights.b, out: b }),
    ];
  }

  #gates() {
    const { aLog, dtBias } = this.#weights;
    return { aLog, dtBias, gateForm: "raw", betaForm: "sigmoid", qkNorm: "l2", qkNormEps: 1e-6 } as const;
  }

  #norm() {
    return { eps: this.config.normEps, activation: this.config.outputGate } as const;
  }

  /** This layer's states in a step or a draft. */
  #statesOf(method: string, step: unknown, draft: unknown): LayerStates {
    const name = `${op}.${method}`;
    if (draft !== undefined) {
      if (step !== undefined) throw invalid(name, "draft", "nothing beside step", draft);
      if (!isDraft(draft)) throw invalid(name, "draft", "what pool.draft(…) gives", draft);
      return draft.layer(this.#layerOf(method, "draft", draft.pool));
    }
    if (!isStep(step) && !isPlaceholder(step)) {
      throw invalid(name, "step", "what pool.step(…) or pool.placeholder(…) gives", step);
    }
    return step.layer(this.#layerOf(method, "step", step.pool));
  }

  /** Which of a pool's layers is this one. */
  #layerOf(method: string, argument: string, pool: StatePool): number {
    const layer = this.poolLayer ?? (pool.layers === 1 ? 0 : undefined);
    if (layer !== undefined && layer < pool.layers) return layer;
    const expected = layer === undefined
      ? "a pool of one layer, or a layer loaded with the option poolLayer"
      : `a pool of at least ${layer + 1} layers, since poolLayer is ${layer}`;
    throw new GatedDeltaError("invalid-argument", { op: `${op}.${method}`, argument, expected, received: `one of ${pool.layers}` });
  }

  /** Checks what every projection shares; returns the number of tokens. */
  #tokensOf(method: string, hidden: Tensor, out: Tensor): number {
    const tokens = rowsOf(method, "hidden", hidden);
    const shape = [tokens, this.config.hiddenSize];
    expectShape(`${op}.${method}`, "hidden", hidden, shape, ["tokens", "hidden"]);
    expectShape(`${op}.${method}`, "out", asTensor(`${op}.${method}`, "out", out), shape, ["tokens", "hidden"]);
    expectDType(`${op}.${method}`, "hidden", hidden, this.dtype);
    return tokens;
  }

  /** `[tokens, value channels]` seen as heads; other shapes are left to the op's own check. */
  #asHeads(tensor: Tensor): Tensor {
    if (!isTensor(tensor) || tensor.shape.length !== 2) return tensor;
    const known = this.#heads.get(tensor);
    if (known) return known;
    const { valueHeads, valueDim } = this.config;
    const view = tensor.reshape([tensor.shape[0] ?? 0, valueHeads, valueDim]);
    this.#heads.set(tensor, view);
    return view;
  }

  #alive(method: string): void {
    if (this.#disposed) throw new DisposedError({ op: `${op}.${method}`, expected: "a layer that is not disposed" });
  }
}
