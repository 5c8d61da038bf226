/**
 * The ways in which a batch of sequences can be split into calls, and the packed rows of each call. All ways must give the same
 * bits, so one list serves every op that carries state from call to call.
 */

import type { ArrayOfDType, DType } from "../../tensor/dtype.ts";

/** The tokens in `start..end − 1` of one sequence. */
export interface Span {
  readonly sequence: number;
  readonly start: number;
  readonly end: number;
}

/** A name for the report, and the calls in order, each a ragged batch of spans. */
export interface Schedule {
  readonly way: string;
  readonly calls: readonly (readonly Span[])[];
}

/** Cases with more tokens or sequences are not run one at a time, which would take minutes. */
export const mostCalls = 8192;

/** Every sequence whole, in one call: the reference for the other schedules. */
export function whole(sequences: number, tokens: number): Schedule {
  return { way: "whole", calls: [all(sequences, 0, tokens)] };
}

/** All sequences together, split into pieces of `lengths` tokens in turn; the last length repeats until the end. */
export function pieces(way: string, sequences: number, tokens: number, lengths: readonly number[]): Schedule {
  const calls: Span[][] = [];
  for (let start = 0, i = 0; start < tokens; i++) {
    const end = Math.min(tokens, start + Math.max(1, lengths[Math.min(i, lengths.length - 1)] ?? tokens));
    calls.push(all(sequences, start, end));
    start = end;
  }
  return { way, calls };
}

/** One token of every sequence per call. */
export function tokenByToken(sequences: number, tokens: number): Schedule {
  return pieces("token by token", sequences, tokens, [1]);
}

/** One whole sequence per call: the same tokens in the smallest batches. */
export function oneSequenceAtATime(sequences: number, tokens: number): Schedule {
  const calls = Array.from({ length: sequences }, (_, sequence) => [{ sequence, start: 0, end: tokens }]);
  return { way: "one sequence at a time", calls };
}

/** Spans of different positions and lengths in one call, in reverse order of the sequences. */
export function uneven(sequences: number, tokens: number): Schedule {
  const cut = (sequence: number) => Math.floor((tokens * (sequence + 1)) / (sequences + 1));
  const order = Array.from({ length: sequences }, (_, i) => sequences - 1 - i);
  return {
    way: "uneven batch",
    calls: [
      order.map((sequence) => ({ sequence, start: 0, end: cut(sequence) })),
      order.map((sequence) => ({ sequence, start: cut(sequence), end: tokens })),
    ],
  };
}

/** All schedules other than {@link whole} for which the case is long and wide enough to differ. */
export function otherSchedules(sequences: number, tokens: number): Schedule[] {
  const list: Schedule[] = [];
  const cuts = new Set([1, Math.floor(tokens / 2), tokens - 1].filter((cut) => cut > 0 && cut < tokens));
  for (const cut of cuts) list.push(pieces(`split after ${cut}`, sequences, tokens, [cut, tokens]));
  if (tokens > 17) list.push(pieces("pieces of 17", sequences, tokens, [17]));
  if (tokens > 2 && tokens <= mostCalls) list.push(tokenByToken(sequences, tokens));
  if (sequences > 1 && sequences <= mostCalls) list.push(oneSequenceAtATime(sequences, tokens));
  if (sequences > 1 && tokens > 1) list.push(uneven(sequences, tokens));
  return list;
}

function all(sequences: number, start: number, end: number): Span[] {
  return Array.from({ length: sequences }, (_, sequence) => ({ sequence, start, end }));
}

/** The number of rows of a call. */
export function rowsOf(spans: readonly Span[]): number {
  return spans.reduce((sum, { start, end }) => sum + (end - start), 0);
}

/** The cuSeqlens of a call: the first row of each span, and the total. */
export function cuSeqlensOf(spans: readonly Span[]): Int32Array {
  const starts = new Int32Array(spans.length + 1);
  spans.forEach(({ start, end }, i) => {
    starts[i + 1] = (starts[i] ?? 0) + (end - start);
  });
  return starts;
}

/** The cuSeqlens of sequences of `tokens` each. */
export function evenSeqlens(sequences: number, tokens: number): Int32Array {
  return cuSeqlensOf(all(sequences, 0, tokens));
}

type AnyArray = ArrayOfDType[DType] | Float64Array;

/**
 * The tokens of some spans as packed rows.
 *
 * @param cuSeqlens the first row of each sequence in `source`.
 * @param width elements of a row.
 */
export function gather<A extends AnyArray>(spans: readonly Span[], cuSeqlens: ArrayLike<number>, width: number, source: A): A {
  const target = source.slice(0, rowsOf(spans) * width) as A;
  let at = 0;
  for (const { sequence, start, end } of spans) {
    const first = cuSeqlens[sequence] ?? NaN;
    const part = source.subarray((first + start) * width, (first + end) * width);
    target.set(part, at);
    at += part.length;
  }
  return target;
}

/** The reverse of {@link gather}. */
export function scatter(spans: readonly Span[], cuSeqlens: ArrayLike<number>, width: number, source: AnyArray, target: AnyArray): void {
  let at = 0;
  for (const { sequence, start, end } of spans) {
    const length = (end - start) * width;
    target.set(source.subarray(at, at + length), ((cuSeqlens[sequence] ?? NaN) + start) * width);
    at += length;
  }
}
