/** MLX's affine quantisation, in float64 and bit by bit. Format: `mx.quantize` of Apple's MLX. */
import { dims, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** A quantised matrix: words `[rows, columns bits / 32]`, scales and biases `[rows, columns / group]`. */
export interface Quantised {
  readonly bits: number;
  readonly group: number;
  readonly words: Reference;
  readonly scales: Reference;
  readonly biases: Reference;
}

/** The numbers of a row's stream: number i is bits i · bits, … of the words, each word's lowest bit first. */
export function unpack(words: ArrayLike<number>, bits: number, count: number): number[] {
  const numbers: number[] = [];
  for (let i = 0; i < count; i++) {
    let number = 0;
    for (let k = 0; k < bits; k++) {
      const at = i * bits + k;
      number |= ((words[at >> 5]! >>> (at & 31)) & 1) << k;
    }
    numbers.push(number);
  }
  return numbers;
}

/** The matrix [rows, columns]: q · scale + bias, rounded to float32 as the one fused multiply-add of the kernels. */
export function dequantise({ bits, group, words, scales, biases }: Quantised): Reference {
  const [rows, wordCount] = dims(words, 2) as [number, number];
  const columns = (wordCount * 32) / bits;
  const groups = columns / group;
  const out = reference([rows, columns]);
  for (let row = 0; row < rows; row++) {
    const numbers = unpack(words.data.subarray(row * wordCount, (row + 1) * wordCount), bits, columns);
    numbers.forEach((number, i) => {
      const at = row * groups + Math.floor(i / group);
      out.data[row * columns + i] = Math.fround(number * scales.data[at]! + biases.data[at]!);
    });
  }
  return out;
}
