/** Reads token ids that callers pass: each is read once, checked and copied. */
import { areTypedIds, asArray } from "../arguments/reading.ts";
import { BoundsError, GatedDeltaError, ShapeError, describe } from "../errors.ts";

/** The limits of token ids. */
export interface TokenLimits {
  /** The accepted types, for the error. */
  readonly expected: string;
  readonly vocabSize: number;
  /** The most ids. Longer arrays are refused before any id is read: a subclass or a proxy may claim any length. */
  readonly most: number;
  /** The error for too many ids. @default a {@link ShapeError} with the two numbers */
  readonly tooLong?: ((length: number) => GatedDeltaError) | undefined;
}

/**
 * Token ids, copied.
 *
 * @throws {GatedDeltaError} for a value that is not an array of ids; {@link BoundsError} for an id outside the vocabulary.
 */
export function readTokenIds(op: string, argument: string, value: unknown, limits: TokenLimits): number[] {
  const { expected, vocabSize, most, tooLong } = limits;
  const ids = areTypedIds(value) ? copyOf(op, argument, value, limits) : asArray(op, argument, expected, value, most, tooLong);
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i];
    if (typeof id === "number" && Number.isInteger(id) && id >= 0 && id < vocabSize) continue;
    const details = { op, argument: `${argument}[${i}]`, expected: `a token id in 0..${vocabSize - 1}`, received: describe(id) };
    if (typeof id === "number" && Number.isInteger(id)) throw new BoundsError(details);
    throw new GatedDeltaError("invalid-argument", details);
  }
  return ids as number[];
}

/** The elements of a typed array, read by index because a subclass may override its iterator or length. */
function copyOf(op: string, argument: string, source: Int32Array | Uint32Array, { most, tooLong }: TokenLimits): unknown[] {
  const { length } = source;
  if (!(length <= most)) {
    throw tooLong?.(length) ?? new ShapeError({ op, argument, expected: `at most ${most} elements`, received: `${length}` });
  }
  const ids: unknown[] = [];
  for (let i = 0; i < length; i++) ids.push(source[i]);
  return ids;
}
