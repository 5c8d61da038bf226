/**
 * MLX's micro-scaled forms, each element as the float32 number that it represents. Formats: `mx.quantize` of Apple's MLX, and the
 * Open Compute Project's "Microscaling Formats (MX)" for E2M1, E4M3 and E8M0; MLX reads an E8M0 of 255 as infinity.
 */
import { unpack } from "./quantised.ts";
import { dims, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** A float with a sign, some exponent bits, and the rest as fraction. */
function small(bits: number, exponentBits: number, fractionBits: number, bias: number): number {
  const fraction = bits % 2 ** fractionBits;
  const exponent = Math.floor(bits / 2 ** fractionBits) % 2 ** exponentBits;
  const sign = bits >= 2 ** (fractionBits + exponentBits) ? -1 : 1;
  return sign * (exponent === 0 ? fraction * 2 ** (1 - bias - fractionBits) : (1 + fraction / 2 ** fractionBits) * 2 ** (exponent - bias));
}

const e2m1 = (bits: number): number => small(bits, 2, 1, 1);
const e4m3 = (bits: number): number => (bits % 128 === 127 ? NaN : small(bits, 4, 3, 7));
const e8m0 = (bits: number): number => (bits === 255 ? Infinity : 2 ** (bits - 127));

/** Each form: bits per element, elements per group, and the numbers that an element and a scale represent. */
export const microFormats = {
  mxfp4: { bits: 4, group: 32, element: e2m1, scale: e8m0 },
  mxfp8: { bits: 8, group: 32, element: e4m3, scale: e8m0 },
  nvfp4: { bits: 4, group: 16, element: e2m1, scale: e4m3 },
} as const;

/** A form's name, which is that of its `WeightFormat`. */
export type MicroName = keyof typeof microFormats;

/** A matrix: words `[rows, columns bits / 32]`, and scales `[rows, columns / group]`, bytes. */
export interface Micro {
  readonly format: MicroName;
  readonly words: Reference;
  readonly scales: Reference;
}

/** The matrix `[rows, columns]`: each element times its scale, rounded to float32. */
export function dequantiseMicro({ format, words, scales }: Micro): Reference {
  const { bits, group, element, scale } = microFormats[format];
  const [rows, wordCount] = dims(words, 2) as [number, number];
  const columns = (wordCount * 32) / bits;
  const out = reference([rows, columns]);
  for (let row = 0; row < rows; row++) {
    const numbers = unpack(words.data.subarray(row * wordCount, (row + 1) * wordCount), bits, columns);
    numbers.forEach((number, i) => {
      out.data[row * columns + i] = Math.fround(element(number) * scale(scales.data[row * (columns / group) + Math.floor(i / group)]!));
    });
  }
  return out;
}
