/** int8 activations: rows rounded in groups, and `linear` of them with MLX's weights, to the bit. */
import type { WeightFormat } from "../../lib/index.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import { microFormats } from "./micro.ts";
import type { Micro } from "./micro.ts";
import { unpack } from "./quantised.ts";
import type { Quantised } from "./quantised.ts";
import { dims, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

const f = Math.fround;

/** Columns that share a scale; 0 for weights that are multiplied exactly. */
export function groupOf(format: WeightFormat): number {
  const { family, elements } = weightLayouts[format];
  if (family === "affine" || format === "mxfp4" || format === "nvfp4") return elements;
  if (family !== "ggml") return 0;
  return format === "q2_k" || format === "q3_k" || format === "q6_k" ? 16 : 32;
}

/** The integer nearest to a number, ties to even. */
function nearest(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below;
}

/** A group of a row: integers times a scale. */
export interface RoundedGroup {
  readonly scale: number;
  readonly integers: ArrayLike<number>;
}

/** Rounds a group of float32 numbers. */
export function roundGroup(numbers: ArrayLike<number>): RoundedGroup {
  const integers = new Float64Array(numbers.length);
  let most = 0;
  for (let i = 0; i < numbers.length; i++) most = Math.max(most, Math.abs(numbers[i]!));
  if (!Number.isFinite(most)) return { scale: NaN, integers };
  const scale = f(most / 127);
  for (let i = 0; i < numbers.length; i++) integers[i] = scale === 0 ? 0 : Math.max(-127, Math.min(127, nearest(f(numbers[i]! / scale))));
  return { scale, integers };
}

/** The groups of a row, one after another. */
function groupsOf(x: Reference, row: number, group: number): RoundedGroup[] {
  const columns = x.shape[1]!;
  return Array.from({ length: columns / group }, (_, g) => roundGroup(x.data.subarray(row * columns + g * group, row * columns + (g + 1) * group)));
}

/** The numbers that rounded rows represent. */
export function rounded(x: Reference, group: number): Reference {
  const [rows, columns] = dims(x, 2) as [number, number];
  const out = reference([rows, columns]);
  for (let row = 0; row < rows; row++) {
    for (const [g, { scale, integers }] of groupsOf(x, row, group).entries()) {
      for (let i = 0; i < group; i++) out.data[row * columns + g * group + i] = integers[i]! * scale;
    }
  }
  return out;
}

/** a b + c of float32 numbers, rounded once. */
export function fused(a: number, b: number, c: number): number {
  const product = a * b; // exact
  const sum = product + c;
  const rest = sum - product;
  const lost = product - (sum - rest) + (c - rest); // sum + lost is exact
  const near = f(sum);
  // Rounding twice is wrong only if the sum seems to be halfway between two float32 numbers: near and this one.
  const other = 2 * sum - near;
  if (lost === 0 || !Number.isFinite(near) || f(other) !== other) return near;
  return lost > 0 ? Math.max(near, other) : Math.min(near, other);
}

/** `linear` of rounded rows with an affine weight, each product and sum rounded to float32 as the kernels round them. */
export function int8Affine(x: Reference, { bits, group, words, scales, biases }: Quantised): Float32Array {
  return int8Product(x, words, { bits, group, integer: (number) => number, scale: (at) => scales.data[at]!, bias: (at) => biases.data[at]! });
}

/** The same with an E2M1 weight: integers are twice as large, scales half as large. */
export function int8Micro(x: Reference, { format, words, scales }: Micro): Float32Array {
  const { bits, group, element, scale } = microFormats[format];
  return int8Product(x, words, { bits, group, integer: (number) => 2 * element(number), scale: (at) => f(scale(scales.data[at]!) / 2) });
}

/** A form of a weight: its integers, and its factors by group number. */
interface Form {
  readonly bits: number;
  readonly group: number;
  readonly integer: (number: number) => number;
  readonly scale: (at: number) => number;
  readonly bias?: (at: number) => number;
}

function int8Product(x: Reference, words: Reference, { bits, group, integer, scale: scaleAt, bias }: Form): Float32Array {
  const [rows, columns] = dims(x, 2) as [number, number];
  const [features, wordCount] = dims(words, 2) as [number, number];
  const numbers = Array.from({ length: features }, (_, o) => unpack(words.data.subarray(o * wordCount, (o + 1) * wordCount), bits, columns).map(integer));
  const out = new Float32Array(rows * features);
  for (let row = 0; row < rows; row++) {
    const groups = groupsOf(x, row, group);
    for (let o = 0; o < features; o++) {
      let sum = 0;
      for (const [g, { scale, integers }] of groups.entries()) {
        const at = o * groups.length + g;
        let [product, whole] = [0, 0];
        for (let i = 0; i < group; i++) {
          product += integers[i]! * numbers[o]![g * group + i]!;
          whole += integers[i]!;
        }
        const shift = f(whole * scale);
        const number = f(product * scaleAt(at));
        sum = f(sum + (bias === undefined ? f(number * scale) : fused(number, scale, f(bias(at) * shift))));
      }
      out[row * features + o] = sum;
    }
  }
  return out;
}
