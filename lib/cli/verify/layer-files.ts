/**
 * `layer-*` files: a whole mixer's weights under their checkpoint names, hidden_states `[B, prefill + steps, hidden]`,
 * and output_f32, the outputs of all tokens from an empty state, in float32 arithmetic over the stored weights. The layer runs
 * in float32, even with 16-bit weights.
 */

import type { Device } from "../../device/device.ts";
import { GatedDeltaNet } from "../../layer/gated-delta-net.ts";
import { gatedDeltaLayers } from "../../layer/layer-names.ts";
import { bounds } from "./compare.ts";
import type { GoldenFile } from "./golden-file.ts";
import { checkWays, type LayerSequences } from "./layer-ways.ts";
import type { Report } from "./report.ts";
import { evenSeqlens } from "./schedule.ts";

/** One file's inputs and reference. */
export interface LayerInputs extends LayerSequences {
  /** `[B, T, hidden]`. */
  readonly output: Float64Array;
}

/** {@link LayerInputs}, and the layer with the file's weights. */
export interface LayerCase extends LayerInputs {
  readonly layer: GatedDeltaNet;
}

/** The prefix of these files' names, and the operation that they test, for the report. */
export const [layerPrefix, layerOp] = ["layer-", "GatedDeltaNet"] as const;

/**
 * Runs a file's case in every way and reports each.
 *
 * @throws {FileError} before anything is reported, for a file without such a case.
 */
export function checkLayer(file: GoldenFile, device: Device, report: Report): void {
  const data = readLayerCase(file, device);
  using layer = data.layer;
  checkWays(layer, data, report, { output: data.output, bound: bounds.layer });
}

/** Reads the case of a file, without the weights. */
export function readLayerInputs(file: GoldenFile): LayerInputs {
  const input = file.float32("hidden_states", ["B", "T", "hidden"]);
  const output = file.reference("output_f32", ["B", "T", "hidden"]);
  const sequences = file.size("B");
  const tokens = file.size("T");
  const prefill = file.number("prefill_tokens", 0, Math.floor(tokens / 2));
  const steps = file.number("decode_steps", 0, tokens - prefill);
  if (!Number.isInteger(prefill) || !Number.isInteger(steps) || prefill + steps !== tokens) {
    throw file.bad(`prefill_tokens and decode_steps that add up to ${tokens} tokens`, `${prefill} and ${steps}`);
  }
  const cuSeqlens = evenSeqlens(sequences, tokens);
  return { sequences, tokens, cuSeqlens, hidden: file.size("hidden"), input, output, prefill };
}

/** Reads a file and loads its layer, which the caller disposes. */
export function readLayerCase(file: GoldenFile, device: Device): LayerCase {
  const inputs = readLayerInputs(file);
  const [index, ...others] = gatedDeltaLayers(file.source.names);
  if (index === undefined || others.length > 0) {
    throw file.bad("the weights of one layer", index === undefined ? "none" : "several");
  }
  const layer = GatedDeltaNet.load(device, file.path, { layer: index });
  if (layer.config.hiddenSize !== inputs.hidden) {
    layer[Symbol.dispose]();
    throw file.bad(`hidden_states of width ${layer.config.hiddenSize}, as its config says`, String(inputs.hidden));
  }
  return { ...inputs, layer };
}
