/** Token ids as callers pass them: read once each, checked and copied. */
import { asArray } from "../arguments/reading.ts";
import { BoundsError, GatedDeltaError, ShapeError, describe } from "../errors.ts";

/** What token ids are checked against. */
export interface TokenLimits {
  /** What may be passed, for the error about something else. */
  readonly expected: string;
  readonly vocabSize: number;
  /** More than this are refused before any is read: a subclass or a proxy may claim any length. */
  readonly most: number;
  /** The error for more. @default a {@link ShapeError} that tells the two numbers */
  readonly tooLong?: ((length: number) => GatedDeltaError) | undefined;
}

/**
 * Token ids, copied.
 *
 * @throws {GatedDeltaError} for what is no array of ids; {@link BoundsError} for an id outside the vocabulary.
 */
export function readTokenIds(op: string, argument: string, value: unknown, limits: TokenLimits): number[] {
  const { expected, vocabSize, most, tooLong } = limits;
  const typed = value instanceof Int32Array || value instanceof Uint32Array;
  const ids = typed ? copyOf(op, argument, value, limits) : asArray(op, argument, expected, value, most, tooLong);
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i];
    if (typeof id === "number" && Number.isInteger(id) && id >= 0 && id < vocabSize) continue;
    const details = { op, argument: `${argument}[${i}]`, expected: `a token id in 0..${vocabSize - 1}`, received: describe(id) };
    if (typeof id === "number" && Number.isInteger(id)) throw new BoundsError(details);
    throw new GatedDeltaError("invalid-argument", details);
  }
  return ids as number[];
}

/** The elements of a typed array, read by index: a subclass may have an iterator, or a length, of its own. */
function copyOf(op: string, argument: string, source: Int32Array | Uint32Array, { most, tooLong }: TokenLimits): unknown[] {
  const { length } = source;
  if (!(length <= most)) {
    throw tooLong?.(length) ?? new ShapeError({ op, argument, expected: `at most ${most} elements`, received: `${length}` });
  }
  const ids: unknown[] = [];
  for (let i = 0; i < length; i++) ids.push(source[i]);
  return ids;
}
