/**
 * The ways to run a mixer over whole sequences: in one call, split into calls, in other batches, forked half-way, restored from a
 * file. With f32 states, all ways have the bits of one prefill.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GatedDeltaNet } from "../../layer/gated-delta-net.ts";
import type { StateHandle } from "../../states/state-handle.ts";
import { StatePool } from "../../states/state-pool.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { Report } from "./report.ts";
import { cuSeqlensOf, gather, otherSchedules, pieces, rowsOf, scatter, whole, type Schedule, type Span } from "./schedule.ts";

/** Sequences of hidden states, and their offsets. */
export interface LayerSequences {
  readonly sequences: number;
  readonly tokens: number;
  /** The first token of each sequence in arrays of all tokens. */
  readonly cuSeqlens: Int32Array;
  readonly hidden: number;
  /** `[B, T, hidden]`. */
  readonly input: Float32Array;
  /** Number of tokens of the prompt; later tokens are decoded. */
  readonly prefill: number;
}

/** The result of a way. */
interface Result {
  readonly output: Float32Array;
  /** Final recurrent and convolution states of every sequence. */
  readonly state: Float32Array;
  readonly conv: Float32Array;
}

/** How calls with one token of each sequence run: by the fused step, or by the separate ops like other calls. */
type SingleTokens = "fused" | "unfused";

/** The reference of outputs. */
export interface LayerReference {
  /** `[B, T, hidden]`. */
  readonly output: Float64Array;
  readonly bound: number;
}

/**
 * Runs a layer in every way and reports each: compared with the reference, if any, and bit for bit with the first way.
 *
 * @param label prefix of the tensors' names, which distinguishes the layers of a checkpoint.
 */
export function checkWays(layer: GatedDeltaNet, data: LayerSequences, report: Report, reference?: LayerReference, label = ""): void {
  const { sequences, tokens, prefill } = data;
  const near = (way: string, { output }: Result) => {
    if (reference) report.near(way, `${label}output`, output, reference.output, reference.bound);
  };
  const base = run(layer, data, whole(sequences, tokens), "unfused");
  near("one prefill", base);

  const promised = (way: string, result: Result) => {
    near(way, result);
    for (const tensor of ["output", "state", "conv"] as const) {
      report.equal(way, `${label}${tensor}, bits of one prefill`, result[tensor], base[tensor], (array) => array);
    }
  };
  const prompt = pieces("", sequences, tokens, [prefill, 1]);
  promised("prefill and fused decode", run(layer, data, prompt, "fused"));
  promised("prefill and unfused decode", run(layer, data, prompt, "unfused"));
  promised("prefill in chunks and fused decode", run(layer, data, pieces("", sequences, tokens, chunks(prefill)), "fused"));
  for (const schedule of otherSchedules(sequences, tokens)) promised(schedule.way, run(layer, data, schedule, "fused"));
  if (tokens < 2) return;
  promised("forked half-way", forked(layer, data));
  promised("restored half-way", restored(layer, data));
}

/** The prompt in chunks of unequal lengths, then one token per call. */
function chunks(prefill: number): number[] {
  const lengths: number[] = [];
  for (let left = prefill, next = 16; left > 0; next = next === 16 ? 7 : 16) {
    const length = Math.min(left, next);
    lengths.push(length);
    left -= length;
  }
  return [...lengths, 1];
}

/** A pool for some states of a layer, with convolution states in the layer's dtype. */
function poolFor({ device, stateShape, dtype }: GatedDeltaNet, slots: number): StatePool {
  return StatePool.create(device, { slots: Math.max(1, slots), layers: 1, ...stateShape, convDtype: dtype });
}

function run(layer: GatedDeltaNet, data: LayerSequences, schedule: Schedule, single: SingleTokens): Result {
  using pool = poolFor(layer, data.sequences);
  const handles = Array.from({ length: data.sequences }, () => pool.allocate());
  const output = new Float32Array(data.input.length);
  for (const spans of schedule.calls) call(layer, data, handles, spans, single, output);
  return collect(pool, handles, output);
}

/** Half of every sequence; then the second half, first by the original states and then by a fork of each. */
function forked(layer: GatedDeltaNet, data: LayerSequences): Result {
  using pool = poolFor(layer, 2 * data.sequences);
  const handles = Array.from({ length: data.sequences }, () => pool.allocate());
  const output = new Float32Array(data.input.length);
  const [first, second] = halves(data);
  call(layer, data, handles, first, "unfused", output);
  const forks = handles.map((handle) => handle.fork());
  call(layer, data, handles, second, "unfused", new Float32Array(data.input.length));
  call(layer, data, forks, second, "unfused", output);
  return collect(pool, forks, output);
}

/** Half of every sequence; then the states are saved, and another pool continues with them. */
function restored(layer: GatedDeltaNet, data: LayerSequences): Result {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-verify-"));
  try {
    const path = join(folder, "states.safetensors");
    const output = new Float32Array(data.input.length);
    const [first, second] = halves(data);
    {
      using pool = poolFor(layer, data.sequences);
      const handles = Array.from({ length: data.sequences }, () => pool.allocate());
      call(layer, data, handles, first, "unfused", output);
      pool.save(handles, path);
    }
    using pool = poolFor(layer, data.sequences);
    const handles = pool.load(path);
    call(layer, data, handles, second, "unfused", output);
    return collect(pool, handles, output);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function halves({ sequences, tokens }: LayerSequences): readonly [Span[], Span[]] {
  const middle = tokens >> 1;
  const spans = (start: number, end: number) => Array.from({ length: sequences }, (_, sequence) => ({ sequence, start, end }));
  return [spans(0, middle), spans(middle, tokens)];
}

/** Runs some tokens of some sequences through the layer, and copies their outputs to their places among all. */
function call(
  layer: GatedDeltaNet,
  { cuSeqlens, hidden, input }: LayerSequences,
  handles: readonly StateHandle[],
  spans: readonly Span[],
  single: SingleTokens,
  output: Float32Array,
): void {
  const { device, dtype } = layer;
  const rows = rowsOf(spans);
  using given = device.tensor(dtype, [rows, hidden]);
  given.copyFrom(gather(spans, cuSeqlens, hidden, input));
  using out = device.tensor("f32", [rows, hidden]);
  const members = spans.flatMap(({ sequence }) => handles[sequence] ?? []);
  const decodes = single === "fused" && spans.every(({ start, end }) => end - start === 1);
  members[0]?.pool.run(members, (step) => decodes
    ? layer.decode({ hidden: given, out, step })
    : layer.forward({ hidden: given, out, cuSeqlens: cuSeqlensOf(spans), step }));
  device.wait();
  scatter(spans, cuSeqlens, hidden, out.data, output);
}

function collect(pool: StatePool, handles: readonly StateHandle[], output: Float32Array): Result {
  const slots = Int32Array.from(handles, ({ slot }) => slot);
  return { output, state: slotsOf(pool.state(0), slots), conv: slotsOf(pool.conv(0), slots) };
}

/** Copies slots out of a pool, in the given order; slot -1 reads as zeros. */
function slotsOf(pool: Tensor, slots: Int32Array): Float32Array {
  const elements = pool.toFloat32();
  const perSlot = elements.length / (pool.shape[0] ?? 1);
  const target = new Float32Array(slots.length * perSlot);
  slots.forEach((slot, i) => {
    if (slot >= 0) target.set(elements.subarray(slot * perSlot, (slot + 1) * perSlot), i * perSlot);
  });
  return target;
}
