/** The memory between the ops of mixers, which layers of the same shape share. */

import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { convChannels, gateChannels, valueChannels, type LayerConfig } from "../checkpoint/mixer-config.ts";
import { Scratch, type Row, type ScratchLayout } from "./scratch.ts";

/** Tensors for a number of tokens. */
export interface MixerViews {
  /** `[tokens, conv channels]`: the projection, which the convolution reads. */
  readonly qkv: Tensor;
  /** `[tokens, conv channels]`: the convolution's output; the next three are views of it. */
  readonly conv: Tensor;
  /** `[tokens, key heads, key dim]`. */
  readonly query: Tensor;
  /** `[tokens, key heads, key dim]`. */
  readonly key: Tensor;
  /** `[tokens, value heads, value dim]`. */
  readonly value: Tensor;
  /** `[tokens, value channels]`. */
  readonly z: Tensor;
  /** `[tokens, value heads]`, or `[tokens, value heads · key dim]`, f32, since gates need the precision and take little memory. */
  readonly a: Tensor;
  /** `[tokens, value heads]`, f32. */
  readonly b: Tensor;
  /** `[tokens, rank]`, f32: the first product of a low-rank projection to a. */
  readonly aDown: Tensor | undefined;
  /** `[tokens, rank]`: the first product of a low-rank projection to z. */
  readonly zDown: Tensor | undefined;
  /** `[tokens, value heads, value dim]`, f32, since the delta rule's output is not rounded before the norm. */
  readonly delta: Tensor;
  /** `[tokens, value channels]`. */
  readonly normed: Tensor;
}

/** Everything that the sizes of scratch memory depend on. */
export interface MixerScratchShape {
  readonly config: LayerConfig;
  /** Dtype of the activations. */
  readonly dtype: FloatDType;
  /** Rank of a low-rank projection to a. */
  readonly aRank: number | undefined;
  /** Rank of a low-rank projection to z. */
  readonly zRank: number | undefined;
}

type Name = "qkv" | "conv" | "z" | "a" | "b" | "delta" | "normed";
type LowRank = "aDown" | "zDown";

export type MixerScratch = Scratch<Name, MixerViews, LowRank>;

/** Scratch memory, and the layers that use it. */
interface Shared {
  readonly scratch: MixerScratch;
  users: number;
}

/** The scratch memory of a device's layers, by shape. */
const shared = new WeakMap<Device, Map<string, Shared>>();

/**
 * Scratch memory for one more layer. Layers of a device with the same sizes share it, because their ops run one after another.
 * Call `release` once when the layer is disposed; the last call frees the memory.
 */
export function takeScratch(device: Device, shape: MixerScratchShape): { readonly scratch: MixerScratch; readonly release: () => void } {
  let ofDevice = shared.get(device);
  if (ofDevice === undefined) shared.set(device, (ofDevice = new Map()));
  const { config: { keyHeads, valueHeads, keyDim, valueDim, gateDims }, dtype, aRank, zRank } = shape;
  const key = [keyHeads, valueHeads, keyDim, valueDim, gateDims, dtype, aRank, zRank].join();
  let found = ofDevice.get(key);
  if (found === undefined) ofDevice.set(key, (found = { scratch: new Scratch(device, layoutOf(shape)), users: 0 }));
  const { scratch } = found;
  found.users++;
  const release = (): void => {
    if (--found.users > 0) return;
    ofDevice.delete(key);
    scratch[Symbol.dispose]();
  };
  return { scratch, release };
}

function layoutOf({ config, dtype, aRank, zRank }: MixerScratchShape): ScratchLayout<Name, MixerViews, LowRank> {
  const { keyHeads, valueHeads, keyDim, valueDim } = config;
  const channels = convChannels(config);
  return {
    rows: {
      qkv: [dtype, channels],
      conv: [dtype, channels],
      z: [dtype, valueChannels(config)],
      a: ["f32", gateChannels(config)],
      b: ["f32", valueHeads],
      ...(aRank !== undefined && { aDown: ["f32", aRank] as Row }),
      ...(zRank !== undefined && { zDown: [dtype, zRank] as Row }),
      delta: ["f32", valueHeads, valueDim],
      normed: [dtype, valueChannels(config)],
    },
    views({ qkv, conv, z, a, b, aDown, zDown, delta, normed }, rowsOf, start, end) {
      const tokens = end - start;
      const first = start * channels;
      const keys = { shape: [tokens, keyHeads, keyDim], strides: [channels, keyDim, 1] };
      const values = { shape: [tokens, valueHeads, valueDim], strides: [channels, valueDim, 1] };
      return {
        qkv: rowsOf(qkv),
        conv: rowsOf(conv),
        query: conv.view({ offset: first, ...keys }),
        key: conv.view({ offset: first + keyHeads * keyDim, ...keys }),
        value: conv.view({ offset: first + 2 * keyHeads * keyDim, ...values }),
        z: rowsOf(z),
        a: rowsOf(a),
        b: rowsOf(b),
        aDown: aDown && rowsOf(aDown),
        zDown: zDown && rowsOf(zDown),
        delta: rowsOf(delta),
        normed: rowsOf(normed),
      };
    },
  };
}
