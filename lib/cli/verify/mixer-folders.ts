/**
 * Folders of checkpoints with Gated DeltaNet mixers: each mixer is run in every way, and all ways must have the same bits. If the folder
 * has an `expected.safetensors` (`hidden`, `output` `[B, T, hidden]`, float64 arithmetic on the stored weights; metadata
 * `layer`, `prefill_tokens`, `decode_steps`), that layer's outputs are compared with it.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Device } from "../../device/device.ts";
import { UnsupportedError } from "../../errors.ts";
import { GatedDeltaNet } from "../../layer/gated-delta-net.ts";
import { gatedDeltaLayers } from "../../layer/layer-names.ts";
import type { FloatDType } from "../../tensor/dtype.ts";
import { bounds } from "./compare.ts";
import type { CheckSettings, FolderKind } from "./folders.ts";
import { GoldenFile } from "./golden-file.ts";
import { checkWays, type LayerReference, type LayerSequences } from "./layer-ways.ts";
import type { Report } from "./report.ts";
import { evenSeqlens } from "./schedule.ts";

/** Sequences and tokens for a checkpoint without references. */
const [freeSequences, freeTokens, freePrefill] = [2, 24, 19];

/** The kind of these folders. */
export const mixerKind: FolderKind = {
  op: "GatedDeltaNet",
  noun: "a checkpoint with Gated DeltaNet mixers",
  matches: (names) => gatedDeltaLayers(names).length > 0,
  check,
};

function check(folder: string, names: readonly string[], device: Device, report: Report, { dtype, activations }: CheckSettings): void {
  if (activations !== "exact") throw new UnsupportedError({ op: "verify", argument: "activations", expected: "exact for mixers", received: activations });
  const path = join(folder, "expected.safetensors");
  if (existsSync(path)) {
    const { layer: index, data, reference } = readExpected(path, dtype);
    using layer = GatedDeltaNet.load(device, folder, { layer: index, dtype });
    if (layer.config.hiddenSize !== data.hidden) {
      using file = new GoldenFile(path);
      throw file.bad(`hidden of width ${layer.config.hiddenSize}, as the configuration says`, String(data.hidden));
    }
    checkWays(layer, data, report, reference);
    return;
  }
  for (const index of gatedDeltaLayers(names)) {
    using layer = GatedDeltaNet.load(device, folder, { layer: index, dtype });
    checkWays(layer, randomSequences(layer.config.hiddenSize, index), report, undefined, `layer ${index}: `);
  }
}

function readExpected(path: string, dtype: FloatDType): { layer: number; data: LayerSequences; reference: LayerReference } {
  using file = new GoldenFile(path);
  const input = file.float32("hidden", ["B", "T", "hidden"]);
  const output = file.reference("output", ["B", "T", "hidden"]);
  const [sequences, tokens, hidden] = [file.size("B"), file.size("T"), file.size("hidden")];
  const layer = file.number("layer", 0, 0);
  const prefill = file.number("prefill_tokens", 0, tokens);
  const steps = file.number("decode_steps", 0, tokens - prefill);
  if (!Number.isInteger(layer)) throw file.bad("layer to be a whole number", String(layer));
  if (!Number.isInteger(prefill) || prefill + steps !== tokens) {
    throw file.bad(`prefill_tokens and decode_steps that add up to ${tokens} tokens`, `${prefill} and ${steps}`);
  }
  // There are six roundings to 16 bits: of the input, the projections, the convolution and the norm.
  const bound = dtype === "f32" ? bounds.layer : 8 * bounds[dtype];
  const data = { sequences, tokens, cuSeqlens: evenSeqlens(sequences, tokens), hidden, input, prefill };
  return { layer, data, reference: { output, bound } };
}

/** Hidden states of unit variance, the same in every run (Park, Miller, "Random number generators: good ones are hard to find", 1988). */
function randomSequences(hidden: number, seed: number): LayerSequences {
  let state = seed + 1;
  const uniform = () => (state = (state * 48271) % 0x7fff_ffff) / 0x7fff_ffff;
  for (let i = 0; i < 16; i++) uniform();
  const input = Float32Array.from({ length: freeSequences * freeTokens * hidden }, () => Math.sqrt(12) * (uniform() - 0.5));
  const cuSeqlens = evenSeqlens(freeSequences, freeTokens);
  return { sequences: freeSequences, tokens: freeTokens, cuSeqlens, hidden, input, prefill: freePrefill };
}
