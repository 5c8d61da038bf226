/** Runs a case call by call over one pool, and joins the pieces of its output. */
import { rowsOf } from "../../lib/cli/verify/schedule.ts";
import type { Algorithm, Device } from "../../lib/index.ts";
import type { BatchOptions } from "../reference/batch.ts";
import type { CausalConv1dCase } from "../reference/causal-conv1d.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import type { Reference } from "../reference/tensor.ts";
import { runCausalConv1d, runGatedDelta } from "./run-ops.ts";
import type { ConvFormats, DeltaFormats, Results } from "./run-ops.ts";
import { convOfSpans, deltaOfSpans, sequenceCount } from "./spans.ts";
import type { Slots, Span } from "./spans.ts";

/** The spans of each call, one call after the other. */
export type Calls = readonly (readonly Span[])[];

interface Stateful extends BatchOptions {
  readonly state?: Reference | undefined;
}

/**
 * Each sequence starts from its read slot in its first call and continues from its write slot, where every call leaves
 * its state. So every sequence must have a write slot.
 */
function runCalls<C extends Stateful>(
  given: C,
  calls: Calls,
  pick: (given: C, spans: readonly Span[], slots: Slots) => C,
  run: (part: C) => Results,
): Required<Results> {
  const started = new Set<number>();
  const pieces: number[][] = Array.from({ length: sequenceCount(given) }, () => []);
  let state = given.state!;
  for (const spans of calls) {
    const slots = {
      readSlots: spans.map(({ sequence }) => (started.has(sequence) ? given.writeSlots! : given.readSlots!)[sequence]!),
      writeSlots: spans.map(({ sequence }) => given.writeSlots![sequence]!),
    };
    const got = run(pick({ ...given, state }, spans, slots));
    // Between calls the pool is kept in float64, which holds the numbers of every format exactly.
    state = { shape: state.shape, data: Float64Array.from(got.state!) };
    const rows = rowsOf(spans);
    const size = rows === 0 ? 0 : got.out.length / rows;
    let at = 0;
    for (const { sequence, start, end } of spans) {
      started.add(sequence);
      pieces[sequence]!.push(...got.out.subarray(at, at + (end - start) * size));
      at += (end - start) * size;
    }
  }
  return { out: Float32Array.from(pieces.flat()), state: Float32Array.from(state.data) };
}

/** `gatedDelta`, call by call. */
export function deltaCalls(
  device: Device,
  given: GatedDeltaCase,
  formats: DeltaFormats,
  calls: Calls,
  algorithm?: Algorithm,
) {
  return runCalls(given, calls, deltaOfSpans, (part) => runGatedDelta(device, part, formats, { algorithm }));
}

/** `causalConv1d`, call by call. */
export function convCalls(device: Device, given: CausalConv1dCase, formats: ConvFormats, calls: Calls) {
  return runCalls(given, calls, convOfSpans, (part) => runCausalConv1d(device, part, formats));
}
