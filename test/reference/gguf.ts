/**
 * ggml's formats of weights, each element as the float32 number that it represents: products and differences are rounded one
 * by one. Layouts: ggml's `ggml-common.h`; formulas: `dequantize_row_*` of its `ggml-quants.c`.
 */
const f = Math.fround;
type Bytes = Uint8Array;

const word = (b: Bytes, at: number): number => b[at]! + 256 * b[at + 1]!;
const signed = (byte: number): number => (byte < 128 ? byte : byte - 256);

/** The f16 at a place. */
function half(b: Bytes, at: number): number {
  const bits = word(b, at);
  const sign = bits < 0x8000 ? 1 : -1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

/** The float32 of a word's upper and lower 16 bits. */
function single(upper: number, lower: number): number {
  return new Float32Array(new Uint32Array([upper * 65536 + lower]).buffer)[0]!;
}

/** Four bits of element i: `span` elements are the low halves of `span` bytes, the next `span` elements their high halves. */
function nibble(b: Bytes, at: number, i: number, span: number): number {
  const byte = b[at + Math.floor(i / (2 * span)) * span + (i % span)]!;
  return Math.floor(i / span) % 2 === 0 ? byte & 15 : byte >> 4;
}

/** Two bits of element i: 128 elements occupy 32 bytes, each 32 elements one pair of bits per byte. */
const pair = (b: Bytes, at: number, i: number): number => (b[at + 32 * (i >> 7) + (i & 31)]! >> (2 * ((i >> 5) & 3))) & 3;

/** One bit of element i of 256: 32 bytes, each 32 elements one bit per byte. */
const bit = (b: Bytes, at: number, i: number): number => (b[at + (i & 31)]! >> (i >> 5)) & 1;

/** The fifth bit of element i of 32: four bytes, lowest bit first. */
const fifth = (b: Bytes, at: number, i: number): number => (b[at + (i >> 3)]! >> (i & 7)) & 1;

/** Scale and minimum j of Q4_K and Q5_K: 6 bits each, in 12 bytes. */
function scaleAndMinimum(b: Bytes, at: number, j: number): [number, number] {
  if (j < 4) return [b[at + j]! & 63, b[at + 4 + j]! & 63];
  const shared = b[at + 4 + j]!;
  return [(shared & 15) + 16 * (b[at + j - 4]! >> 6), (shared >> 4) + 16 * (b[at + j]! >> 6)];
}

/** Q4_K and Q5_K: (d · scale) q − (dmin · minimum). */
function superBlock(b: Bytes, i: number, q: number): number {
  const [scale, minimum] = scaleAndMinimum(b, 4, i >> 5);
  return f(f(f(half(b, 0) * scale) * q) - f(half(b, 2) * minimum));
}

/** Scale j of Q3_K: the low four bits are halves of 8 bytes, the high two are pairs of bits in 4 bytes. */
const scaleOfQ3 = (b: Bytes, at: number, j: number): number =>
  nibble(b, at, j, 8) + 16 * ((b[at + 8 + (j & 3)]! >> (2 * (j >> 2))) & 3) - 32;

const table = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/** The numbers of e2m1, doubled. */
const doubled = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/** One format: a block's elements and bytes, ggml's number of the type, and element i of a block. */
export interface GgmlFormat {
  readonly type: number;
  readonly elements: number;
  readonly bytes: number;
  readonly element: (block: Bytes, i: number) => number;
}

/** The formats that the library reads, by the names of their `WeightFormat`s. */
export const ggmlFormats = {
  f32: { type: 0, elements: 1, bytes: 4, element: (b) => single(word(b, 2), word(b, 0)) },
  f16: { type: 1, elements: 1, bytes: 2, element: (b) => half(b, 0) },
  bf16: { type: 30, elements: 1, bytes: 2, element: (b) => single(word(b, 0), 0) },
  q4_0: { type: 2, elements: 32, bytes: 18, element: (b, i) => f(half(b, 0) * (nibble(b, 2, i, 16) - 8)) },
  q4_1: { type: 3, elements: 32, bytes: 20, element: (b, i) => f(f(half(b, 0) * nibble(b, 4, i, 16)) + half(b, 2)) },
  q5_0: { type: 6, elements: 32, bytes: 22, element: (b, i) => f(half(b, 0) * (nibble(b, 6, i, 16) + 16 * fifth(b, 2, i) - 16)) },
  q5_1: { type: 7, elements: 32, bytes: 24, element: (b, i) => f(f(half(b, 0) * (nibble(b, 8, i, 16) + 16 * fifth(b, 4, i))) + half(b, 2)) },
  q8_0: { type: 8, elements: 32, bytes: 34, element: (b, i) => f(half(b, 0) * signed(b[2 + i]!)) },
  q2_k: {
    type: 10,
    elements: 256,
    bytes: 84,
    element: (b, i) => f(f(f(half(b, 80) * (b[i >> 4]! & 15)) * pair(b, 16, i)) - f(half(b, 82) * (b[i >> 4]! >> 4))),
  },
  q3_k: {
    type: 11,
    elements: 256,
    bytes: 110,
    element: (b, i) => f(f(half(b, 108) * scaleOfQ3(b, 96, i >> 4)) * (pair(b, 32, i) + 4 * bit(b, 0, i) - 4)),
  },
  q4_k: { type: 12, elements: 256, bytes: 144, element: (b, i) => superBlock(b, i, nibble(b, 16, i, 32)) },
  q5_k: { type: 13, elements: 256, bytes: 176, element: (b, i) => superBlock(b, i, nibble(b, 48, i, 32) + 16 * bit(b, 16, i)) },
  q6_k: {
    type: 14,
    elements: 256,
    bytes: 210,
    element: (b, i) => f(f(half(b, 208) * signed(b[192 + (i >> 4)]!)) * (nibble(b, 0, i, 64) + 16 * pair(b, 128, i) - 32)),
  },
  iq4_nl: { type: 20, elements: 32, bytes: 18, element: (b, i) => f(half(b, 0) * table[nibble(b, 2, i, 16)]!) },
  iq4_xs: {
    type: 23,
    elements: 256,
    bytes: 136,
    element: (b, i) => {
      const j = i >> 5;
      const scale = nibble(b, 4 + (j >> 1), j & 1, 1) + 16 * ((word(b, 2) >> (2 * j)) & 3) - 32;
      return f(f(half(b, 0) * scale) * table[nibble(b, 8, i, 16)]!);
    },
  },
  "gguf-mxfp4": { type: 39, elements: 32, bytes: 17, element: (b, i) => f(2 ** (b[0]! - 128) * doubled[nibble(b, 1, i, 16)]!) },
} as const satisfies Readonly<Record<string, GgmlFormat>>;

/** A format's name. */
export type GgmlName = keyof typeof ggmlFormats;

/** All the elements of whole blocks. */
export function dequantiseGgml(name: GgmlName, blocks: Uint8Array): Float32Array<ArrayBuffer> {
  const { elements, bytes, element } = ggmlFormats[name] as GgmlFormat;
  if (blocks.length % bytes !== 0) throw new Error(`reference: ${blocks.length} bytes are not whole blocks of ${bytes}`);
  const out = new Float32Array((blocks.length / bytes) * elements);
  for (let at = 0; at < out.length; at += elements) {
    const block = blocks.subarray((at / elements) * bytes, (at / elements + 1) * bytes);
    for (let i = 0; i < elements; i++) out[at + i] = element(block, i);
  }
  return out;
}
