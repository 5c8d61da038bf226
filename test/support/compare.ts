/** How far results are from a reference, and how far they may be. */
import type { Format } from "../reference/rounding.ts";

/** ‖x - ref‖₂ / ‖ref‖₂; where ref is all zeros, 0 if x is too and infinite if not. NaN anywhere gives NaN or infinity. */
export function relRms(x: ArrayLike<number>, ref: ArrayLike<number>): number {
  sameLength(x, ref);
  let error = 0;
  let size = 0;
  let different = false;
  for (let i = 0; i < ref.length; i++) {
    error += (x[i]! - ref[i]!) ** 2;
    size += ref[i]! ** 2;
    // Asked of the numbers themselves: the square of a small difference can be 0.
    if (x[i] !== ref[i]) different = true;
  }
  if (size === 0) return different ? Infinity : 0;
  return Math.sqrt(error / size);
}

/** The largest |x - ref|; NaN if either has one where the other has not. */
export function maxAbs(x: ArrayLike<number>, ref: ArrayLike<number>): number {
  sameLength(x, ref);
  let most = 0;
  for (let i = 0; i < ref.length; i++) {
    if (Object.is(x[i], ref[i])) continue;
    const error = Math.abs(x[i]! - ref[i]!);
    if (!(error <= most)) most = error;
    if (Number.isNaN(most)) return NaN;
  }
  return most;
}

/** ggml's measure, ‖x - ref‖₂² / ‖ref‖₂²: the square of {@link relRms}. */
export function nmse(x: ArrayLike<number>, ref: ArrayLike<number>): number {
  return relRms(x, ref) ** 2;
}

function sameLength(x: ArrayLike<number>, ref: ArrayLike<number>): void {
  if (x.length !== ref.length) throw new Error(`${x.length} numbers compared with ${ref.length}`);
}

/**
 * Where two pieces of memory first differ, in bytes; undefined where they are equal to the bit. Unlike comparing
 * numbers this tells 0 from -0 and one NaN from another.
 */
export function firstDifference(a: ArrayBufferView, b: ArrayBufferView): number | undefined {
  const one = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  const other = new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
  const length = Math.min(one.length, other.length);
  for (let i = 0; i < length; i++) if (one[i] !== other[i]) return i;
  return one.length === other.length ? undefined : length;
}

/** Whether two pieces of memory hold the same bits. */
export function bitsEqual(a: ArrayBufferView, b: ArrayBufferView): boolean {
  return firstDifference(a, b) === undefined;
}

/** The largest {@link relRms} allowed against float64, by what is compared. */
export const bounds = {
  /** float32 results of an op. */
  f32: 2e-6,
  /** The chunked algorithm's float32 results. */
  chunked: 5e-6,
  /** A whole layer in float32 arithmetic. */
  layer: 5e-6,
  /** Results rounded to bf16 or f16 when stored. */
  bf16: 2e-3,
  f16: 3e-4,
} as const;

/** The bound for a result of a format. */
export function boundOf(format: Format): number {
  return bounds[format];
}

/**
 * The bound of an adversarial case, whose errors pile up as long as its states live: `tokens` in a sequence and the
 * largest decay. The reference must have its decays rounded to float32.
 */
export function adversarialBound(tokens: number, largestDecay: number): number {
  const life = largestDecay >= 1 ? Infinity : 1 / (1 - largestDecay);
  return 2e-6 + 4 * 2 ** -24 * Math.min(tokens, life);
}
