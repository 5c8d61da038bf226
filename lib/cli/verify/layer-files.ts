/**
 * `layer-*` files: a whole mixer's weights under their checkpoint names, hidden_states `[B, prefill + steps, hidden]`,
 * and output_f32, which float32 arithmetic over the stored weights gives for all tokens from an empty state. The layer
 * runs in float32, whatever dtype the weights have.
 */

import type { Device } from "../../device/device.ts";
import { gatedDeltaLayers } from "../../layer/layer-names.ts";
import { GatedDeltaNet } from "../../layer/gated-delta-net.ts";
import { StatePool } from "../../states/state-pool.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { bounds } from "./compare.ts";
import type { FileKind, GoldenFile } from "./golden-file.ts";
import type { Report } from "./report.ts";
import { cuSeqlensOf, evenSeqlens, gather, otherSchedules, pieces, rowsOf, scatter, whole, type Schedule } from "./schedule.ts";

/** One file's inputs and reference. */
export interface LayerInputs {
  readonly sequences: number;
  readonly tokens: number;
  /** Where each sequence's tokens begin in arrays of all of them. */
  readonly cuSeqlens: Int32Array;
  readonly hidden: number;
  /** `[B, T, hidden]`. */
  readonly input: Float32Array;
  /** `[B, T, hidden]`. */
  readonly output: Float64Array;
  /** Tokens of the prompt; those after it are meant to be decoded. */
  readonly prefill: number;
}

/** The same, and the layer made of the file's weights. */
export interface LayerCase extends LayerInputs {
  readonly layer: GatedDeltaNet;
}

interface Result {
  readonly output: Float32Array;
  /** Final recurrent and convolution states of every sequence. */
  readonly state: Float32Array;
  readonly conv: Float32Array;
}

/** How calls of one token a sequence run: through the fused step, or the separate ops like any other call. */
type SingleTokens = "fused" | "unfused";

/** The kind of these files. */
export const layerKind: FileKind = { prefix: "layer-", op: "GatedDeltaNet", check };

function check(file: GoldenFile, device: Device, report: Report): void {
  const data = readLayerCase(file, device);
  using _ = data.layer;
  const { sequences, tokens, prefill } = data;
  const base = run(device, data, whole(sequences, tokens), "unfused");
  report.near("one prefill", "output", base.output, data.output, bounds.layer);

  const promised = (way: string, schedule: Schedule, single: SingleTokens) => {
    const result = run(device, data, schedule, single);
    report.near(way, "output", result.output, data.output, bounds.layer);
    for (const tensor of ["output", "state", "conv"] as const) {
      report.equal(way, `${tensor}, bits of one prefill`, result[tensor], base[tensor], (array) => array);
    }
  };
  const prompt = pieces("", sequences, tokens, [prefill, 1]);
  promised("prefill and fused decode", prompt, "fused");
  promised("prefill and unfused decode", prompt, "unfused");
  promised("prefill in chunks and fused decode", pieces("", sequences, tokens, chunks(prefill)), "fused");
  for (const schedule of otherSchedules(sequences, tokens)) promised(schedule.way, schedule, "fused");
}

/** The prompt in chunks of unequal lengths, then one token a call. */
function chunks(prefill: number): number[] {
  const lengths: number[] = [];
  for (let left = prefill, next = 16; left > 0; next = next === 16 ? 7 : 16) {
    const length = Math.min(left, next);
    lengths.push(length);
    left -= length;
  }
  return [...lengths, 1];
}

/** Reads everything of a file but the weights. */
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
  const [index, ...others] = gatedDeltaLayers(file.names);
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

function run(device: Device, data: LayerCase, schedule: Schedule, single: SingleTokens): Result {
  const { layer, sequences, tokens, cuSeqlens, hidden } = data;
  const output = new Float32Array(sequences * tokens * hidden);
  using pool = StatePool.create(device, { slots: Math.max(1, sequences), layers: 1, ...layer.stateShape });
  const handles = Array.from({ length: sequences }, () => pool.allocate());
  for (const spans of schedule.calls) {
    const rows = rowsOf(spans);
    using input = device.tensorFrom("f32", [rows, hidden], gather(spans, cuSeqlens, hidden, data.input));
    using out = device.tensor("f32", [rows, hidden]);
    const members = spans.flatMap(({ sequence }) => handles[sequence] ?? []);
    const decodes = single === "fused" && spans.every(({ start, end }) => end - start === 1);
    pool.run(members, (step) => decodes
      ? layer.decode({ hidden: input, out, step })
      : layer.forward({ hidden: input, out, cuSeqlens: cuSeqlensOf(spans), step }));
    device.wait();
    scatter(spans, cuSeqlens, hidden, out.data, output);
  }
  const readSlots = Int32Array.from(handles, ({ slot }) => slot);
  return { output, state: slotsOf(pool.state(0), readSlots), conv: slotsOf(pool.conv(0), readSlots) };
}

/** Copies slots of a pool out, in the order given; slot -1 is one that nothing was written to. */
function slotsOf(pool: Tensor, slots: Int32Array): Float32Array {
  const elements = pool.toFloat32();
  const perSlot = elements.length / (pool.shape[0] ?? 1);
  const target = new Float32Array(slots.length * perSlot);
  slots.forEach((slot, i) => {
    if (slot >= 0) target.set(elements.subarray(slot * perSlot, (slot + 1) * perSlot), i * perSlot);
  });
  return target;
}
