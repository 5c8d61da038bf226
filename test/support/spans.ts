/** Batches of pieces of a case's sequences, which run alone, in another order, or call by call. */
import type { BatchOptions } from "../reference/batch.ts";
import type { CausalConv1dCase } from "../reference/causal-conv1d.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import type { GatedDeltaStepCase } from "../reference/gated-delta-step.ts";
import { cuSeqlensOf, gather, rowsOf } from "../../lib/cli/verify/schedule.ts";
import type { Span } from "../../lib/cli/verify/schedule.ts";
import { sizeOf } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import type { Random } from "./random.ts";

export type { Span };

/** A sequence's slots in a call. */
export interface Slots {
  readonly readSlots: readonly number[];
  readonly writeSlots: readonly number[];
}

/** Rows of a tensor, span by span. */
function rowsOfSpans({ shape, data }: Reference, cuSeqlens: readonly number[], spans: readonly Span[]): Reference {
  const [, ...rest] = shape;
  return { shape: [rowsOf(spans), ...rest], data: gather(spans, cuSeqlens, sizeOf(rest), data) };
}

/** A recurrence over pieces of a case's sequences. */
export function deltaOfSpans(given: GatedDeltaCase, spans: readonly Span[], slots: Slots): GatedDeltaCase {
  const rows = (tensor: Reference) => rowsOfSpans(tensor, given.cuSeqlens!, spans);
  const { query, key, value, gate, beta } = given;
  const parts = { query: rows(query), key: rows(key), value: rows(value), gate: rows(gate), beta: rows(beta) };
  return { ...given, ...parts, ...slots, cuSeqlens: [...cuSeqlensOf(spans)] };
}

/** A convolution over pieces of a case's sequences. */
export function convOfSpans(given: CausalConv1dCase, spans: readonly Span[], slots: Slots): CausalConv1dCase {
  return { ...given, ...slots, x: rowsOfSpans(given.x, given.cuSeqlens!, spans), cuSeqlens: [...cuSeqlensOf(spans)] };
}

/** A step of some of a case's sequences. */
export function stepOfSequences(
  given: GatedDeltaStepCase,
  sequences: readonly number[],
  slots: Slots,
): GatedDeltaStepCase {
  const ones = Array.from({ length: given.x.shape[0]! + 1 }, (_, s) => s);
  const spans = sequences.map((sequence) => ({ sequence, start: 0, end: 1 }));
  const rows = (tensor: Reference) => rowsOfSpans(tensor, ones, spans);
  return { ...given, ...slots, x: rows(given.x), gate: rows(given.gate), beta: rows(given.beta), z: rows(given.z) };
}

/** All of a sequence. */
export function wholeSpan({ cuSeqlens }: BatchOptions, sequence: number): Span {
  return { sequence, start: 0, end: cuSeqlens![sequence + 1]! - cuSeqlens![sequence]! };
}

/** Number of sequences. */
export function sequenceCount({ cuSeqlens }: BatchOptions): number {
  return cuSeqlens!.length - 1;
}

/** The numbers of one sequence's rows in an output of the whole batch. */
export function sequenceRows<A extends Float32Array | Float64Array>(
  out: A,
  { cuSeqlens }: BatchOptions,
  sequence: number,
): A {
  const size = out.length / Math.max(cuSeqlens!.at(-1)!, 1);
  return out.slice(cuSeqlens![sequence]! * size, cuSeqlens![sequence + 1]! * size) as A;
}

/** The numbers in a slot. */
export function slotOf<A extends Float32Array | Float64Array>(pool: A, slots: number, slot: number): A {
  const size = pool.length / slots;
  return pool.slice(slot * size, (slot + 1) * size) as A;
}

/**
 * Cuts every sequence into one piece per call, at random places: some pieces have no tokens.
 *
 * @returns the spans of each call, one for every sequence.
 */
export function randomCuts(random: Random, batch: BatchOptions, calls: number): Span[][] {
  const cuts = Array.from({ length: sequenceCount(batch) }, (_, s) => {
    const { end } = wholeSpan(batch, s);
    const inner = Array.from({ length: calls - 1 }, () => random.below(end + 1)).sort((a, b) => a - b);
    return [0, ...inner, end];
  });
  return Array.from({ length: calls }, (_, call) => {
    return cuts.map((at, sequence) => ({ sequence, start: at[call]!, end: at[call + 1]! }));
  });
}

/** One token per call: sequences that have ended take no part, those without tokens take part in the first call. */
export function tokenByToken(batch: BatchOptions): Span[][] {
  const ends = Array.from({ length: sequenceCount(batch) }, (_, s) => wholeSpan(batch, s).end);
  const spanAt = (sequence: number, token: number) => ({
    sequence,
    start: token,
    end: Math.min(token + 1, ends[sequence]!),
  });
  return Array.from({ length: Math.max(1, ...ends) }, (_, token) =>
    ends.flatMap((end, sequence) => (token < end || token === 0 ? [spanAt(sequence, token)] : [])),
  );
}
