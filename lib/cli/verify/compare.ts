/** How far a result is from its reference, and whether two results have the same bits. */

/** The two distances that a row of the report shows. */
export interface Distance {
  /** ‖actual − reference‖₂ / ‖reference‖₂. For a reference of all zeros: 0 if actual is, too, else infinity. */
  readonly relRms: number;
  /** The largest absolute difference of an element. */
  readonly maxAbs: number;
}

/** Distance of `actual` from `reference`, summed in float64. A NaN on either side makes both numbers NaN. */
export function distance(actual: ArrayLike<number>, reference: ArrayLike<number>): Distance {
  if (actual.length !== reference.length) throw new Error(`lengths differ: ${actual.length} and ${reference.length}`);
  let difference = 0;
  let norm = 0;
  let maxAbs = 0;
  for (let i = 0; i < reference.length; i++) {
    const expected = reference[i] ?? NaN;
    const delta = (actual[i] ?? NaN) - expected;
    difference += delta * delta;
    norm += expected * expected;
    const magnitude = Math.abs(delta);
    if (magnitude > maxAbs) maxAbs = magnitude;
  }
  if (Number.isNaN(difference)) return { relRms: NaN, maxAbs: NaN };
  if (norm === 0) return { relRms: difference === 0 ? 0 : Infinity, maxAbs };
  return { relRms: Math.sqrt(difference / norm), maxAbs };
}

/** Whether two typed arrays hold the same bytes. */
export function sameBytes(a: ArrayBufferView, b: ArrayBufferView): boolean {
  if (a.byteLength !== b.byteLength) return false;
  return Buffer.compare(bytesOf(a), bytesOf(b)) === 0;
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}
