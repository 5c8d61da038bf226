/**
 * A device's limits: the bandwidth of its memory and its multiply-adds per second. Both are measured with `linear`: over weights
 * that are read once, and over small weights that are used for many rows.
 */
import type { Device } from "../device/device.ts";
import { linear } from "../ops/linear.ts";
import { convChannels, valueChannels } from "../checkpoint/mixer-config.ts";
import type { ModelConfig } from "../model/model-config.ts";

/** Both limits. */
export interface Limits {
  /** Bytes of weights read per second. */
  readonly bytes: number;
  /** Multiply-adds per second. */
  readonly multiplyAdds: number;
}

/** Measures a device's limits, which takes a few tenths of a second. */
export async function machineLimits(device: Device): Promise<Limits> {
  const megabytes = device.emulated ? 1 : 128;
  const bytes = await speed(device, 1, megabytes * 256, 1024, 4 * 1024 * 256 * megabytes);
  const [rows, size] = device.emulated ? [8, 64] : [256, 512];
  return { bytes, multiplyAdds: await speed(device, rows, size, size, rows * size * size) };
}

/** The work per second of `linear`, in the fastest of several runs. */
async function speed(device: Device, rows: number, outFeatures: number, inFeatures: number, work: number): Promise<number> {
  using x = device.tensor("f32", [rows, inFeatures]);
  using weight = device.tensor("f32", [outFeatures, inFeatures]);
  using out = device.tensor("f32", [rows, outFeatures]);
  x.data.fill(1);
  weight.data.fill(1); // so that every page of memory exists
  let least = Infinity;
  for (let i = 0; i < 5; i++) {
    const start = performance.now();
    device.run(linear({ x, weight, out }));
    await device.finish();
    if (i > 0) least = Math.min(least, performance.now() - start);
  }
  return (work / least) * 1000;
}

/** Multiply-adds of one prompt token in the layers' matrices; in a mixture of experts, only in those of the token's experts. */
export function promptWork({ hiddenSize, intermediateSize, layers, attention, mixer, experts }: ModelConfig): number {
  const { heads, kvHeads, headDim, gated } = attention;
  const perAttention = hiddenSize * headDim * ((gated ? 2 : 1) * heads + 2 * kvHeads + heads);
  const perMixer = hiddenSize * (convChannels(mixer) + 2 * valueChannels(mixer) + 2 * mixer.valueHeads);
  const perMixture = experts && hiddenSize * (experts.count + 3 * experts.perToken * experts.intermediateSize + 3 * experts.sharedIntermediateSize + 1);
  const mixtures = experts?.layers.length ?? 0;
  const mlps = (layers.length - mixtures) * 3 * hiddenSize * intermediateSize + mixtures * (perMixture ?? 0);
  return layers.reduce((sum, type) => sum + (type === "attention" ? perAttention : perMixer), mlps);
}
