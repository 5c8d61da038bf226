/** Moving tokens between a case's arrays, `[sequences, tokens, ...]`, and the packed rows of a ragged batch. */

import type { ArrayOfDType, DType, FloatDType } from "../../tensor/dtype.ts";
import type { Span } from "./schedule.ts";

type AnyArray = ArrayOfDType[DType];

/** How many rows a call has. */
export function rowsOf(spans: readonly Span[]): number {
  return spans.reduce((sum, { from, to }) => sum + (to - from), 0);
}

/**
 * The tokens of some spans as packed rows.
 *
 * @param tokens tokens of each sequence in `source`.
 * @param width elements of a token.
 */
export function gather<A extends AnyArray>(spans: readonly Span[], tokens: number, width: number, source: A): A {
  const target = source.slice(0, rowsOf(spans) * width) as A;
  let at = 0;
  for (const { sequence, from, to } of spans) {
    const start = (sequence * tokens + from) * width;
    const part = source.subarray(start, start + (to - from) * width);
    target.set(part, at);
    at += part.length;
  }
  return target;
}

/** The reverse of {@link gather}. */
export function scatter(spans: readonly Span[], tokens: number, width: number, source: AnyArray, target: AnyArray): void {
  let at = 0;
  for (const { sequence, from, to } of spans) {
    const length = (to - from) * width;
    target.set(source.subarray(at, at + length), (sequence * tokens + from) * width);
    at += length;
  }
}

/** A copy with the last two of three dimensions exchanged: `[outer, rows, columns]` to `[outer, columns, rows]`. */
export function transposed<A extends ArrayOfDType[FloatDType] | Float64Array>(source: A, rows: number, columns: number): A {
  const target = source.slice() as A;
  const block = rows * columns;
  for (let start = 0; start + block <= source.length && block > 0; start += block) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        target[start + column * rows + row] = source[start + row * columns + column] ?? NaN;
      }
    }
  }
  return target;
}
