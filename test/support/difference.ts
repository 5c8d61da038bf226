/** Where two pieces of memory differ. */

/** The first byte at which they differ, undefined if they are equal to the bit: 0 and −0 differ, and so do NaNs of different bits. */
export function firstDifference(a: ArrayBufferView, b: ArrayBufferView): number | undefined {
  const [one, other] = [a, b].map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)) as [Uint8Array, Uint8Array];
  if (Buffer.compare(one, other) === 0) return undefined;
  const length = Math.min(one.length, other.length);
  for (let i = 0; i < length; i++) if (one[i] !== other[i]) return i;
  return length;
}
