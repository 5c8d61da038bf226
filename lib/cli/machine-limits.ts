/**
 * A device's limits, measured in a moment: how fast its memory is read, and how many multiplications with additions it does
 * a second. Both are those of `linear` at its best: over weights that are read once, and over small ones that are used for
 * many rows.
 */
import type { Device } from "../device/device.ts";
import { linear } from "../ops/linear.ts";
import { convChannels, valueChannels } from "../checkpoint/mixer-config.ts";
import type { ModelConfig } from "../model/model-config.ts";

/** Both limits. */
export interface Limits {
  /** Bytes of weights read in a second. */
  readonly bytes: number;
  /** Multiplications with additions in a second. */
  readonly multiplyAdds: number;
}

/** Measures a device's limits, in some tenths of a second. */
export async function machineLimits(device: Device): Promise<Limits> {
  const megabytes = device.emulated ? 1 : 128;
  const bytes = await speed(device, 1, megabytes * 256, 1024, 4 * 1024 * 256 * megabytes);
  const [rows, size] = device.emulated ? [8, 64] : [256, 512];
  return { bytes, multiplyAdds: await speed(device, rows, size, size, rows * size * size) };
}

/** How much work a second `linear` does, in the quickest of some runs. */
async function speed(device: Device, rows: number, outFeatures: number, inFeatures: number, work: number): Promise<number> {
  using x = device.tensor("f32", [rows, inFeatures]);
  using weight = device.tensor("f32", [outFeatures, inFeatures]);
  using out = device.tensor("f32", [rows, outFeatures]);
  x.data.fill(1);
  weight.data.fill(1); // every page is there
  let least = Infinity;
  for (let i = 0; i < 5; i++) {
    const start = performance.now();
    device.run(linear({ x, weight, out }));
    await device.finish();
    if (i > 0) least = Math.min(least, performance.now() - start);
  }
  return (work / least) * 1000;
}

/** Multiplications with additions of one token of a prompt, in the layers' matrices. */
export function promptWork({ hiddenSize, intermediateSize, layers, attention, mixer }: ModelConfig): number {
  const { heads, kvHeads, headDim, gated } = attention;
  const perAttention = hiddenSize * headDim * ((gated ? 2 : 1) * heads + 2 * kvHeads + heads);
  const perMixer = hiddenSize * (convChannels(mixer) + 2 * valueChannels(mixer) + 2 * mixer.valueHeads);
  return layers.reduce((sum, type) => sum + 3 * hiddenSize * intermediateSize + (type === "attention" ? perAttention : perMixer), 0);
}
