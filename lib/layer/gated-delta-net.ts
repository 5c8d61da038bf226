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

import { asArguments, invalid } from "../arguments/checks.ts";
import { asTensor, expectDType, expectShape } from "../tensor/expect.ts";
import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { DisposedError, GatedDeltaError } from "../errors.ts";
import { asDevice } from "../tensor/device-handle.ts";
import { causalConv1d } from "../ops/causal-conv1d.ts";
import { gatedDelta } from "../ops/gated-delta.ts";
import { gatedDeltaStep } from "../ops/gated-delta-step.ts";
import { gatedRmsNorm } from "../ops/gated-rms-norm.ts";
import { linear } from "../ops/linear.ts";
import type { Op } from "../ops/op.ts";
import { checkOptions } from "../arguments/options.ts";
import { PoolVerification } from "../states/pool-verification.ts";
import { reading } from "../arguments/reading.ts";
import { openCheckpoint } from "../safetensors/safetensors.ts";
import { isPool, type StatePool } from "../states/state-pool.ts";
import { isTensor, type Tensor } from "../tensor/tensor.ts";
import type {
  DecodeArguments,
  ForwardArguments,
  GatedDeltaNetOptions,
  MixArguments,
  MixStepArguments,
  StepSlots,
  VerifyArguments,
} from "./layer-arguments.ts";
import type { LayerConfig } from "./config.ts";
import { readLayerConfig } from "./read-config.ts";
import { Scratch, type ScratchViews } from "./scratch.ts";
import { loadWeights, type LayerWeights } from "./weights.ts";

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
  readonly #poolLayer: number | undefined;
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
    this.#poolLayer = poolLayer;
    this.#weights = weights;
    this.#scratch = new Scratch(device, config, dtype);
  }

  /**
   * Loads one layer of a checkpoint: Qwen3.5's split projections or Qwen3-Next's interleaved ones, f32, f16 or bf16,
   * under any of the prefixes that checkpoints use.
   *
   * @param files a `.safetensors` file, an index (`model.safetensors.index.json`), the directory of either, or a list
   * of files.
   * @throws FileError for files that are missing, damaged, of other shapes, or without this layer; DTypeError for
   * weights of another dtype; UnsupportedError for quantised weights and unknown activations.
   */
  static load(device: Device, files: string | readonly string[], options: GatedDeltaNetOptions): GatedDeltaNet {
    asDevice(`${op}.load`, device);
    const checked = checkOptions(schemas().loadOptions, `${op}.load`, options);
    using source = openCheckpoint(files);
    const config = readLayerConfig(source, checked.layer, checked.config);
    return new GatedDeltaNet(device, loadWeights(device, source, checked.layer, config), config, checked);
  }

  /** The sizes that `StatePool.create` wants, for this layer or any like it. */
  get stateShape() {
    const { keyHeads, valueHeads, keyDim, valueDim, convWidth } = this.config;
    return { keyHeads, valueHeads, keyDim, valueDim, convWidth } as const;
  }

  /**
   * The ops that take any ragged batch of tokens through the layer: whole prompts, pieces of them, single tokens. With
   * f32 states, however a sequence is cut into calls and whatever shares its batch, its bits are the same.
   *
   * The ops share this layer's scratch memory: run those of one call before or after those of another, never
   * concurrently on two devices. Scratch grows with `tokens`; long prompts are best fed in pieces of some hundred.
   *
   * @example
   * device.run(...layer.forward({ hidden, out, cuSeqlens, pool, step }));
   * device.wait();
   * step.done();
   */
  forward(args: ForwardArguments): Op[] {
    return this.#ops("forward", args, ({ hidden, out, cuSeqlens, pool, step }) => {
      const tokens = this.#tokensOf("forward", hidden, out);
      const scratch = this.#scratch.views(tokens);
      return [
        ...this.#project(hidden, scratch),
        ...this.mix({ ...scratch, out: scratch.normed, cuSeqlens, pool, step }),
        linear({ x: scratch.normed, weight: this.#weights.out, out }),
      ];
    });
  }

  /**
   * The ops that take drafted tokens through the layer without changing any state: {@link forward}, with what
   * `verification.commit` needs kept beside. Commit once the ops of all layers have been run.
   *
   * @example
   * using draft = pool.verify([state], [4], { activationDtype: layer.dtype });
   * device.run(...layer.verify({ hidden, out, pool, verification: draft }));
   * device.wait();
   * draft.commit([2]); // two of the four were right
   */
  verify(args: VerifyArguments): Op[] {
    return this.#ops("verify", args, ({ hidden, out, pool, verification }) => {
      const tokens = this.#tokensOf("verify", hidden, out);
      const layer = this.#layerOf("verify", pool);
      if (!(verification instanceof PoolVerification)) {
        throw invalid(`${op}.verify`, "verification", "a PoolVerification", verification);
      }
      // The projection's output is the convolution's record, so it goes where it stays until the commit.
      const scratch = { ...this.#scratch.views(tokens), qkv: verification.convInput(layer) };
      const { cuSeqlens, readSlots, writeSlots, snapshotSlots } = verification;
      const kept = { records: verification.records(layer), snapshotSlots };
      return [
        ...this.#project(hidden, scratch),
        ...this.mix({ ...scratch, out: scratch.normed, cuSeqlens, pool, step: { readSlots, writeSlots }, ...kept }),
        linear({ x: scratch.normed, weight: this.#weights.out, out }),
      ];
    });
  }

  /**
   * The ops that take one token of each sequence through the layer, everything between the projections in one fused
   * step. The bits are those of {@link forward}.
   */
  decode(args: DecodeArguments): Op[] {
    return this.#ops("decode", args, ({ hidden, out, pool, step }) => {
      noCheckpoints("decode", step);
      const tokens = this.#tokensOf("decode", hidden, out);
      const scratch = this.#scratch.views(tokens);
      return [
        ...this.#project(hidden, scratch),
        ...this.mixStep({ ...scratch, out: scratch.normed, pool, step }),
        linear({ x: scratch.normed, weight: this.#weights.out, out }),
      ];
    });
  }

  /**
   * The layer without its projections, for callers that have their own (quantised) matrix products: convolution, gated
   * delta rule and gated norm of a ragged batch.
   */
  mix(args: MixArguments): Op[] {
    return this.#ops("mix", args, ({ qkv, z, a, b, out, cuSeqlens, pool, step, records, snapshotSlots }) => {
      const { state, convState } = this.#statesOf("mix", pool);
      const slots = { ...slotsOf("mix", step), snapshotSlots, cuSeqlens };
      const { conv, query, key, value, delta } = this.#scratch.views(rowsOf("mix", "qkv", qkv));
      const weights = this.#weights;
      return [
        causalConv1d({ x: qkv, weight: weights.conv, bias: weights.convBias, state: convState, out: conv, ...slots }),
        gatedDelta({ query, key, value, gate: a, beta: b, out: delta, state, records, ...slots, ...this.#gates() }),
        gatedRmsNorm({ x: delta, z: this.#asHeads(z), weight: weights.norm, out: this.#asHeads(out), ...this.#norm() }),
      ];
    });
  }

  /** {@link mix} for one token of each sequence, as one fused op with the same bits. */
  mixStep(args: MixStepArguments): Op[] {
    return this.#ops("mixStep", args, ({ qkv, z, a, b, out, pool, step }) => {
      noCheckpoints("mixStep", step);
      const { state, convState } = this.#statesOf("mixStep", pool);
      const weights = this.#weights;
      const { eps: normEps, activation: normActivation } = this.#norm();
      return [
        gatedDeltaStep({
          x: qkv,
          convWeight: weights.conv,
          convBias: weights.convBias,
          convState,
          gate: a,
          beta: b,
          state,
          z: this.#asHeads(z),
          normWeight: weights.norm,
          out: this.#asHeads(out),
          keyHeads: this.config.keyHeads,
          ...slotsOf("mixStep", step),
          normEps,
          normActivation,
          ...this.#gates(),
        }),
      ];
    });
  }

  /** Frees weights and scratch as soon as no pending work needs them. Doing it again does nothing. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#scratch[Symbol.dispose]();
    for (const tensor of Object.values(this.#weights) as (Tensor | undefined)[]) tensor?.[Symbol.dispose]();
  }

  /** Makes a method's ops of its arguments, each of which is read once. */
  #ops<Arguments extends object>(method: string, args: Arguments, make: (args: Arguments) => Op[]): Op[] {
    this.#alive(method);
    const name = `${op}.${method}`;
    return reading(name, "", () => make(asArguments(name, args)));
  }

  #project(hidden: Tensor, { qkv, z, a, b }: ScratchViews): Op[] {
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

  #statesOf(method: string, pool: StatePool): { state: Tensor; convState: Tensor } {
    const layer = this.#layerOf(method, pool);
    return { state: pool.state(layer), convState: pool.conv(layer) };
  }

  /** Which of a pool's layers is this one. */
  #layerOf(method: string, pool: StatePool): number {
    if (!isPool(pool)) throw invalid(`${op}.${method}`, "pool", "a StatePool", pool);
    const layer = this.#poolLayer ?? (pool.layers === 1 ? 0 : undefined);
    if (layer === undefined) {
      const expected = "the option poolLayer at load, for a pool of several layers";
      const received = `a pool of ${pool.layers}`;
      throw new GatedDeltaError("invalid-argument", { op: `${op}.${method}`, argument: "pool", expected, received });
    }
    return layer;
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

/** One token has no states on the way that its end does not give. */
function noCheckpoints(method: string, step: StepSlots): void {
  const { checkpoints } = slotsOf(method, step);
  if (checkpoints === undefined) return;
  throw invalid(`${op}.${method}`, "step.checkpoints", "none: forward and mix take them", checkpoints);
}

/** What the ops take of a step, whatever else it is. */
function slotsOf(method: string, step: StepSlots): StepSlots {
  const name = `${op}.${method}`;
  if (typeof step !== "object" || step === null) throw invalid(name, "step", "{ readSlots, writeSlots }", step);
  return reading(name, "step", () => {
    const { readSlots, writeSlots, checkpoints } = step;
    return { readSlots, writeSlots, ...(checkpoints !== undefined && { checkpoints }) };
  });
}

function rowsOf(method: string, argument: string, tensor: Tensor): number {
  return asTensor(`${op}.${method}`, argument, tensor).shape[0] ?? 0;
}
