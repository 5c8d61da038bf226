/** Matrices in ggml's types of blocks: random ones, their values, and their place in memory. */
import type { Tensor } from "../../lib/index.ts";
import { dequantiseGgml, ggmlFormats } from "../reference/gguf.ts";
import type { GgmlName } from "../reference/gguf.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import type { Layouts } from "./layouts.ts";
import type { Random } from "./random.ts";

/** The formats whose blocks hold all of their factors. */
export const blockNames = (Object.keys(ggmlFormats) as GgmlName[]).filter((name) => ggmlFormats[name].elements > 1);
export type BlockName = Exclude<GgmlName, "f32" | "f16" | "bf16">;

/** Where a block has 16-bit numbers. */
const halves: Readonly<Partial<Record<GgmlName, readonly number[]>>> = {
  q4_0: [0], q4_1: [0, 2], q5_0: [0], q5_1: [0, 2], q8_0: [0], q2_k: [80, 82], q3_k: [108], q4_k: [0, 2], q5_k: [0, 2], q6_k: [208],
  iq4_nl: [0], iq4_xs: [0],
};

/** Whether a byte of a block belongs to a 16-bit number, or is an exponent. */
export const isScale = (format: GgmlName, byte: number): boolean =>
  format === "gguf-mxfp4" ? byte === 0 : (halves[format] ?? []).some((place) => byte === place || byte === place + 1);

/** A matrix of blocks. */
export interface Blocks {
  readonly format: BlockName;
  /** [rows, bytes of a row]. */
  readonly bytes: Reference;
  readonly columns: number;
}

/**
 * Random blocks.
 *
 * @param anything whether scales have any bits, such as subnormal, infinite or NaN. Otherwise their absolute values are from 2^-7 to 2^-3.
 */
export function randomBlocks(random: Random, format: BlockName, rows: number, blocks: number, anything = false): Blocks {
  const { elements, bytes } = ggmlFormats[format];
  const out = reference([rows, blocks * bytes]);
  for (let i = 0; i < out.data.length; i++) out.data[i] = random.below(256);
  for (let at = 0; !anything && at < out.data.length; at += bytes) {
    if (format === "gguf-mxfp4") out.data[at] = 118 + random.below(5);
    for (const place of halves[format] ?? []) out.data[at + place + 1] = (random.below(2) << 7) | (32 + random.below(16));
  }
  return { format, bytes: out, columns: blocks * elements };
}

/** The values of a matrix. */
export function valuesOf({ bytes, format, columns }: Blocks): Reference {
  const out = reference([bytes.shape[0]!, columns]);
  out.data.set(dequantiseGgml(format, Uint8Array.from(bytes.data)));
  return out;
}

/** The arguments of `linear` and `embedding` that hold the matrix. */
export function placeBlocks(layouts: Layouts, { format, bytes }: Blocks): { readonly weightFormat: BlockName; readonly weight: Tensor } {
  return { weightFormat: format, weight: layouts.packed("weight", "u8", bytes) };
}
