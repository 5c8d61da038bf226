/** Matrices in MLX's micro-scaled forms: random ones, golden ones, and their place in memory. */
import { join } from "node:path";
import type { Tensor } from "../../lib/index.ts";
import { openSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { microFormats } from "../reference/micro.ts";
import type { Micro, MicroName } from "../reference/micro.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import type { Layouts } from "./layouts.ts";
import type { Random } from "./random.ts";

export const microNames = Object.keys(microFormats) as MicroName[];

/**
 * A matrix of random elements, none of which is NaN.
 *
 * @param anything whether elements and scales have any bits. Otherwise scales are such that elements are about 1 / sqrt(columns) large.
 */
export function randomMicro(random: Random, format: MicroName, [rows, columns]: readonly [number, number], anything = false): Micro {
  const { bits, group } = microFormats[format];
  const words = reference([rows, (columns * bits) / 32]);
  const byte = (): number => {
    const value = random.below(256);
    return bits === 8 && !anything && value % 128 > 119 ? value - 8 : value;
  };
  for (let i = 0; i < words.data.length; i++) words.data[i] = byte() + 256 * byte() + 65536 * byte() + 2 ** 24 * byte();
  const scales = reference([rows, columns / group]);
  // 4-bit elements are about 3 large, 8-bit ones 100; an E4M3 scale has 8 steps per power of two.
  const least = Math.round(Math.log2(1 / (Math.sqrt(columns) * (bits === 8 ? 100 : 3))));
  for (let i = 0; i < scales.data.length; i++) {
    scales.data[i] = anything ? random.below(256) : format === "nvfp4" ? Math.max(1, 8 * (7 + least) + random.below(9)) : 127 + least + random.below(2);
  }
  return { format, words, scales };
}

/** The arguments of `linear` and `embedding` that hold the matrix. */
export function placeMicro(layouts: Layouts, { format, words, scales }: Micro): { readonly weightFormat: MicroName; readonly weight: Tensor; readonly scales: Tensor } {
  return { weightFormat: format, weight: layouts.packed("weight", "u32", words), scales: layouts.packed("scales", "u8", scales) };
}

/** A module's two tensors, as mlx-lm writes them. */
export function microTensors(module: string, { words, scales }: Micro): Record<string, TensorToWrite> {
  return {
    [`${module}.weight`]: { dtype: "U32", shape: words.shape, data: Uint32Array.from(words.data) },
    [`${module}.scales`]: { dtype: "U8", shape: scales.shape, data: Uint8Array.from(scales.data) },
  };
}

/** MLX's results: all elements with many scales, their values; a random matrix, its product with x. See test/golden/micro/make.py. */
export interface GoldenMicro {
  readonly all: Micro;
  readonly values: Reference;
  readonly matrix: Micro;
  readonly x: Reference;
  readonly out: Reference;
}

export function loadMicro(format: MicroName): GoldenMicro {
  using file = openSafetensors(join(import.meta.dir, "../golden/micro", `${format}.safetensors`));
  const tensor = (name: string) => reference(file.info(name).shape, file.float64(name));
  return {
    all: { format, words: tensor("words"), scales: tensor("scales") },
    values: tensor("values"),
    matrix: { format, words: tensor("matrix.words"), scales: tensor("matrix.scales") },
    x: tensor("x"),
    out: tensor("out"),
  };
}
