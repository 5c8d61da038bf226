/**
 * A whole Gated DeltaNet mixer of a Hugging Face checkpoint: that of Qwen3-Next and Qwen3.5 (transformers,
 * `Qwen3_5GatedDeltaNet`, `Qwen3NextGatedDeltaNet`), OLMo hybrid, Kimi Linear, GLM-5-next and Bailing hybrid. For hidden
 * states h `[tokens, hidden]`:
 *
 *     qkv, z, a, b = projections of h
 *     q | k | v    = silu(causal conv of qkv)
 *     o            = gated delta rule of q, k, v with decay exp(-exp(A_log) softplus(a + dt_bias)), or a bounded one, for each
 *                    head or (KDA) key dimension, beta sigmoid(b) or twice that, q and k of unit length (eps 1e-6), q
 *                    scaled by Dk^-1/2
 *     out          = output projection of norm.weight * o * rsqrt(mean o² + eps) * act(z)
 *
 * Gates and everything between the delta rule and the norm's product are float32, regardless of the activations' dtype.
 */

import { asTensor, expectDType, expectShape } from "../tensor/expect.ts";
import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { DisposedError, FileError, ShapeError } from "../errors.ts";
import { asDevice } from "../device/device-handle.ts";
import { embedding } from "../ops/embedding.ts";
import { expectOffsets } from "../ops/layer-states.ts";
import type { Op } from "../ops/op.ts";
import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { checkOptions } from "../arguments/options.ts";
import { reading } from "../arguments/reading.ts";
import { openCheckpoint } from "../checkpoint/safetensors.ts";
import type { TensorSource } from "../checkpoint/safetensors.ts";
import { isDraft } from "../states/draft.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type {
  BothArguments,
  CheckedLoadOptions,
  DecodeArguments,
  ForwardArguments,
  GatedDeltaNetOptions,
  LoadAllOptions,
  MixArguments,
  MixStepArguments,
} from "./layer-arguments.ts";
import type { PoolShape } from "../states/pool-shape.ts";
import type { LayerConfig } from "../checkpoint/mixer-config.ts";
import { asKnown, expectEnd, rowsOf } from "./layer-checks.ts";
import { findPrefix, gatedDeltaLayers } from "./layer-names.ts";
import { loadAllOptions, loadOptions } from "./layer-schemas.ts";
import { expectRows, layerOf, sequencesOf, statesOf } from "./layer-pass.ts";
import { MixerOps } from "./mixer-ops.ts";
import { readLayerConfig } from "../checkpoint/read-config.ts";
import { takeScratch, type MixerScratch } from "./mixer-scratch.ts";
import { TensorLoader } from "../checkpoint/tensor-loader.ts";
import { planWeights, rankOf, type LayerWeights } from "./weights.ts";

const op = "GatedDeltaNet";

/** Makes a layer with weights on the device. */
export const ofWeights: unique symbol = Symbol("of weights");

/** Makes the ops of steps and drafts in one pass through a layer. */
export const forwardBoth: unique symbol = Symbol("forward both");

/** Weights on a device, their tensors, and their layer's configuration. */
export interface LoadedMixer {
  readonly weights: LayerWeights;
  readonly tensors: readonly Tensor[];
  readonly config: LayerConfig;
}

/** One layer's mixer on a device. Its methods return ops, which the caller runs: see {@link forward}. */
export class GatedDeltaNet implements Disposable {
  /** The device of the weights. */
  readonly device: Device;
  /** Index of the layer in the model. */
  readonly layer: number;
  /** Sizes and options. */
  readonly config: LayerConfig;
  /** Dtype of the activations between the ops. */
  readonly dtype: FloatDType;
  /** The layer of a pool that holds this mixer's states; undefined if the caller gave none, for pools of one layer. */
  readonly poolLayer: number | undefined;
  readonly #tensors: readonly Tensor[];
  readonly #ops: MixerOps;
  readonly #scratch: MixerScratch;
  readonly #releaseScratch: () => void;
  #disposed = false;

  private constructor(by: Maker, device: Device, loaded: LoadedMixer, options: CheckedLoadOptions) {
    expectMaker(by, "GatedDeltaNet", "GatedDeltaNet.load(…)");
    const { weights, tensors, config } = loaded;
    const { layer, dtype, poolLayer } = options;
    this.device = device;
    this.config = config;
    this.layer = layer;
    this.dtype = dtype;
    this.poolLayer = poolLayer;
    this.#tensors = tensors;
    this.#ops = new MixerOps(weights, config);
    ({ scratch: this.#scratch, release: this.#releaseScratch } = takeScratch(device, { config, dtype, aRank: rankOf(weights.a), zRank: rankOf(weights.z) }));
  }

  /** A layer of loaded weights, which it then owns. @internal */
  static [ofWeights](device: Device, loaded: LoadedMixer, options: CheckedLoadOptions): GatedDeltaNet {
    return new GatedDeltaNet(maker, device, loaded, options);
  }

  /**
   * Loads one layer of a checkpoint, under any of the prefixes that checkpoints use. The configuration's `model_type` decides the
   * architecture, by default Qwen's. Weights are f32, f16, bf16, or in MLX's quantisation; each stays in its
   * stored form.
   *
   * @param files a `.safetensors` or GGUF file, an index (`model.safetensors.index.json`), the directory of one of them, or a list
   * of files.
   * @throws {FileError} for files that are missing, damaged, of other shapes, or without this layer; {@link DTypeError}
   * for weights of another dtype; {@link UnsupportedError} for other quantisations, unknown activations and tensors that
   * do not belong to the mixer.
   */
  static load(device: Device, files: string | readonly string[], options: GatedDeltaNetOptions): GatedDeltaNet {
    const name = `${op}.load`;
    asDevice(name, device);
    const checked = checkOptions(loadOptions, name, options);
    using source = openCheckpoint(files, name);
    return GatedDeltaNet.#load(device, source, checked);
  }

  /**
   * Loads the mixers of all Gated DeltaNet layers of a checkpoint, in order. The k-th of them has `poolLayer` k, for a
   * pool with that many layers. The checkpoint is opened once.
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
    const checked = checkOptions(loadAllOptions, name, options);
    using source = openCheckpoint(files, name);
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

  static #load(device: Device, source: TensorSource, options: CheckedLoadOptions): GatedDeltaNet {
    const name = `${op}.load`;
    const { config, quantization } = readLayerConfig(source, options.layer, options.config, name);
    using loader = new TensorLoader(device, source, name, quantization);
    const weights = planWeights(loader, findPrefix(source, options.layer, name), config);
    loader.read();
    return new GatedDeltaNet(maker, device, { weights, config, tensors: loader.taken() }, options);
  }

  /** The sizes for `StatePool.create`, for this layer and any like it. */
  get stateShape(): Pick<PoolShape, "keyHeads" | "valueHeads" | "keyDim" | "valueDim" | "convWidth"> {
    const { keyHeads, valueHeads, keyDim, valueDim, convWidth } = this.config;
    return { keyHeads, valueHeads, keyDim, valueDim, convWidth };
  }

  /**
   * The ops that run a ragged batch of tokens through the layer: whole prompts, pieces of them, single tokens; or, with `draft`,
   * drafted tokens, which change no state. With f32 states, a sequence has the same bits however it is split into calls and
   * batched.
   *
   * The layers of a device share scratch memory: run the ops of one call in order, before or after those of another.
   * Scratch memory grows with `tokens`; feed long prompts in pieces of a few hundred tokens.
   *
   * @throws {GatedDeltaError} for arguments that do not fit; nothing is made then.
   * @example
   * pool.run([state], (step) => layer.forward({ hidden, out, step }));
   */
  forward(args: ForwardArguments): Op[] {
    return this.#make("forward", args, ["hidden", "out", "residual", "products", "cuSeqlens", "step", "draft"], ({ hidden, out, residual, products, cuSeqlens, ...pass }) => {
      const tokens = this.#tokensOf("forward", hidden, out);
      const scratch = this.#scratch.views(tokens);
      // A draft needs the convolution's input until its commit, so the projection writes to the draft's memory.
      const { draft } = pass;
      const qkv = isDraft(draft) ? draft.convInput(layerOf(this, "forward", "draft", draft.pool), this.dtype) : scratch.qkv;
      if (draft !== undefined && qkv.shape[0] !== tokens) {
        const expected = `${qkv.shape[0]} tokens, the number drafted`;
        throw new ShapeError({ op: `${op}.forward`, argument: "hidden", expected, received: `${tokens}` });
      }
      return [
        ...this.#ops.project(hidden, { ...scratch, qkv }, products),
        ...this.#mix("forward", { ...scratch, qkv, out: scratch.normed, cuSeqlens, ...pass }),
        this.#ops.output(scratch.normed, out, residual, products),
      ];
    });
  }

  /**
   * {@link forward} of sequences that step and, in the rows after theirs, of sequences that verify drafts. The projections run over
   * all rows; ops on states run once for each of the two groups. @internal
   */
  [forwardBoth]({ hidden, out, residual, step, cuSeqlens, decode, drafts }: BothArguments): Op[] {
    const method = "forward";
    const tokens = this.#tokensOf(method, hidden, out);
    const poolLayer = layerOf(this, method, "draft", drafts.pool);
    const steps = tokens - drafts.tokens;
    // A draft needs the convolution's input until its commit, so the projection writes to the draft's memory.
    const qkv = drafts.convInput(poolLayer);
    expectDType(`${op}.${method}`, "convInput", qkv, this.dtype);
    const scratch = this.#scratch.views(tokens);
    const verified = { ...this.#scratch.views(tokens, steps), qkv };
    const verify = this.#ops.mix({ ...verified, out: verified.normed }, verified, undefined, drafts.layer(poolLayer, qkv));
    const output = this.#ops.output(scratch.normed, out, residual);
    if (steps === 0) return [...this.#ops.project(hidden, verified), ...verify, output];
    const stepped = this.#scratch.views(steps);
    const projected = { ...stepped, out: stepped.normed };
    return [
      ...this.#ops.project(hidden, scratch),
      embedding({ weight: scratch.qkv, ids: Array.from({ length: drafts.tokens }, (_, i) => steps + i), out: qkv }),
      ...(decode ? this.#mixStep(method, { ...projected, step }) : this.#mix(method, { ...projected, cuSeqlens, step })),
      ...verify,
      output,
    ];
  }

  /**
   * The ops that run one token of each sequence through the layer, with everything between the projections in one fused step
   * and with the bits of {@link forward}.
   *
   * @throws {GatedDeltaError} for arguments that do not fit; nothing is made then.
   */
  decode(args: DecodeArguments): Op[] {
    return this.#make("decode", args, ["hidden", "out", "residual", "products", "step"], ({ hidden, out, residual, products, step }) => {
      const tokens = this.#tokensOf("decode", hidden, out);
      const scratch = this.#scratch.views(tokens);
      return [
        ...this.#ops.project(hidden, scratch, products),
        ...this.#mixStep("decode", { ...scratch, out: scratch.normed, step }),
        this.#ops.output(scratch.normed, out, residual, products),
      ];
    });
  }

  /**
   * The layer without its projections, for callers with their own (quantised) matrix products: convolution, gated delta rule and
   * gated norm of a ragged batch.
   *
   * @throws {GatedDeltaError} for arguments that do not fit; nothing is made then.
   */
  mix(args: MixArguments): Op[] {
    const known = ["qkv", "z", "a", "b", "out", "cuSeqlens", "step", "draft"] as const;
    return this.#make("mix", args, known, (given) => this.#mix("mix", given));
  }

  /**
   * {@link mix} for one token of each sequence, as one fused op with the same bits.
   *
   * @throws {GatedDeltaError} for arguments that do not fit; nothing is made then.
   */
  mixStep(args: MixStepArguments): Op[] {
    return this.#make("mixStep", args, ["qkv", "z", "a", "b", "out", "step"], (given) => this.#mixStep("mixStep", given));
  }

  /** Frees weights and scratch memory as soon as no pending work needs them. Further calls do nothing. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#releaseScratch();
    for (const tensor of this.#tensors) tensor[Symbol.dispose]();
  }

  /** Makes the ops of a method. Each argument is read once. */
  #make<Arguments extends object>(
    method: string,
    args: Arguments,
    known: readonly (Arguments extends unknown ? keyof Arguments : never)[],
    make: (args: Arguments) => Op[],
  ): Op[] {
    this.#alive(method);
    const name = `${op}.${method}`;
    return reading(name, "", () => make(asKnown(name, args, known)));
  }

  #mix(method: string, { cuSeqlens, step, draft, ...projected }: MixArguments): Op[] {
    const tokens = rowsOf(method, "qkv", projected.qkv);
    expectEnd(`${op}.${method}`, cuSeqlens, tokens);
    const states = statesOf(this, method, step, draft);
    if (step !== undefined) expectOffsets(`${op}.${method}`, sequencesOf(step), cuSeqlens);
    return this.#ops.mix(projected, this.#scratch.views(tokens), cuSeqlens, states);
  }

  #mixStep(method: string, { step, ...projected }: MixStepArguments): Op[] {
    const states = statesOf(this, method, step, undefined);
    expectRows(`${op}.${method}`, step, rowsOf(method, "qkv", projected.qkv));
    return this.#ops.mixStep(projected, states);
  }

  /** Checks the input and output of a whole mixer; returns the number of tokens. */
  #tokensOf(method: string, hidden: Tensor, out: Tensor): number {
    const tokens = rowsOf(method, "hidden", hidden);
    const shape = [tokens, this.config.hiddenSize];
    expectShape(`${op}.${method}`, "hidden", hidden, shape, ["tokens", "hidden"]);
    expectShape(`${op}.${method}`, "out", asTensor(`${op}.${method}`, "out", out), shape, ["tokens", "hidden"]);
    expectDType(`${op}.${method}`, "hidden", hidden, this.dtype);
    return tokens;
  }

  #alive(method: string): void {
    if (this.#disposed) throw new DisposedError({ op: `${op}.${method}`, expected: "a layer that is not disposed" });
  }
}
