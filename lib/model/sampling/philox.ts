/**
 * Random numbers by position: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011). The number at a position depends only on the seed and the position. So no generator state needs to be kept: a
 * sequence that was forked, restored or drafted continues with the same numbers.
 */

const multiplier0 = 0xd2511f53;
const multiplier1 = 0xcd9e8d57;
const weyl0 = 0x9e3779b9;
const weyl1 = 0xbb67ae85;

/** The upper 32 bits of the product of two 32-bit numbers. */
function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  // Each product is below 2^32, each sum below 2^53.
  const middle = aHigh * bLow + Math.floor((aLow * bLow) / 0x10000);
  const other = aLow * bHigh + (middle % 0x10000);
  return aHigh * bHigh + Math.floor(middle / 0x10000) + Math.floor(other / 0x10000);
}

/** Ten rounds: four 32-bit numbers from a counter of four and a key of two. */
export function philox(counter: readonly [number, number, number, number], key: readonly [number, number]): [number, number, number, number] {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const high0 = multiplyHigh(multiplier0, c0 >>> 0);
    const low0 = Math.imul(multiplier0, c0);
    const high1 = multiplyHigh(multiplier1, c2 >>> 0);
    const low1 = Math.imul(multiplier1, c2);
    [c0, c1, c2, c3] = [high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0];
    k0 = (k0 + weyl0) | 0;
    k1 = (k1 + weyl1) | 0;
  }
  return [c0 >>> 0, c1 >>> 0, c2 >>> 0, c3 >>> 0];
}

/**
 * A number in [0, 1), a multiple of 2^-53.
 *
 * @param seed an integer, 0 .. 2^53 − 1: the key's low and high half.
 * @param position an integer, 0 .. 2^53 − 1: the counter's first two numbers.
 */
export function uniformAt(seed: number, position: number): number {
  const [first, second] = philox(
    [position % 2 ** 32, Math.floor(position / 2 ** 32), 0, 0],
    [seed % 2 ** 32, Math.floor(seed / 2 ** 32)],
  );
  return ((first >>> 5) * 2 ** 26 + (second >>> 6)) / 2 ** 53;
}

/** A random seed. */
export function anySeed(): number {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return (high! >>> 11) * 2 ** 32 + low!;
}
