/** Distances from references, their bounds, and equality of bits. */

import type { FloatDType } from "../../tensor/dtype.ts";

/** The largest allowed {@link relRms}: for a float32 result of an op, a chunked result, a layer's, or one rounded to 16 bits. */
export const bounds = { f32: 2e-6, chunked: 5e-6, layer: 5e-6, bf16: 2e-3, f16: 3e-4 } as const;

/** The bound of a whole model's logits, by the dtype of activations and pages. */
export const modelBounds: Readonly<Record<FloatDType, number>> = { f32: 2e-5, f16: 1e-2, bf16: 8e-2 };

/** The bound for mixtures of experts: if 16-bit activations swap two nearly equal logits of a router, a token has another expert. */
export const mixtureBounds: typeof modelBounds = { f32: modelBounds.f32, f16: 3 * modelBounds.f16, bf16: 3 * modelBounds.bf16 };

/** The bounds of models with int8 activations, which affect tiny models of random weights most. */
export const int8Bounds = { dense: 0.3, mixture: 0.6 } as const;

/**
 * ‖x − ref‖₂ / ‖ref‖₂, summed in float64. For a reference of all zeros, 0 if x is all zeros and infinity if not. NaN
 * anywhere gives NaN or infinity.
 */
export function relRms(x: ArrayLike<number>, ref: ArrayLike<number>): number {
  sameLength(x, ref);
  let error = 0;
  let size = 0;
  let different = false;
  for (let i = 0; i < ref.length; i++) {
    error += (x[i]! - ref[i]!) ** 2;
    size += ref[i]! ** 2;
    if (x[i] !== ref[i]) different = true; // the square of a small difference can be 0
  }
  if (size === 0) return different ? Infinity : 0;
  return Math.sqrt(error / size);
}

/** The largest |x − ref|; NaN if only one side has a NaN. */
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

function sameLength(x: ArrayLike<number>, ref: ArrayLike<number>): void {
  if (x.length !== ref.length) throw new Error(`${x.length} numbers compared with ${ref.length}`);
}

/** Whether two pieces of memory hold the same bits: 0 and −0 differ, and so do NaNs of different bits. */
export function bitsEqual(a: ArrayBufferView, b: ArrayBufferView): boolean {
  return a.byteLength === b.byteLength && Buffer.compare(bytesOf(a), bytesOf(b)) === 0;
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}
