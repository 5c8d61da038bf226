/** Random quantised matrices, and their place in memory. */
import type { FloatDType, Tensor } from "../../lib/index.ts";
import type { Quantised } from "../reference/quantised.ts";
import { reference } from "../reference/tensor.ts";
import { fill } from "./cases.ts";
import type { Layouts } from "./layouts.ts";
import type { Random } from "./random.ts";

/** Every form of a quantised weight. */
export const bitWidths = [2, 3, 4, 5, 6, 8] as const;
export const groupSizes = [32, 64, 128] as const;

/** A matrix of random numbers; its elements are about 1 / sqrt(columns) large. */
export function randomQuantised(
  random: Random,
  [rows, columns]: readonly [number, number],
  bits: number,
  group: number,
  format: FloatDType,
): Quantised {
  const words = reference([rows, (columns * bits) / 32]);
  for (let i = 0; i < words.data.length; i++) words.data[i] = random.below(2 ** 16) * 2 ** 16 + random.below(2 ** 16);
  const size = 4 / (2 ** bits * Math.sqrt(columns));
  return {
    bits,
    group,
    words,
    scales: fill([rows, columns / group], format, () => size * (0.5 + random.uniform())),
    biases: fill([rows, columns / group], format, () => -size * 2 ** (bits - 1) * (0.5 + random.uniform())),
  };
}

/** The arguments of `linear` and `embedding` that hold the matrix. */
export function placeQuantised(
  layouts: Layouts,
  { words, scales, biases }: Quantised,
  format: FloatDType,
): { readonly weight: Tensor; readonly scales: Tensor; readonly biases: Tensor } {
  return {
    weight: layouts.packed("weight", "u32", words),
    scales: layouts.packed("scales", format, scales),
    biases: layouts.packed("biases", format, biases),
  };
}
