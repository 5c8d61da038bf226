// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

import type { DType, WeightFormat } from "./options.ts";

/** How the rows of a matrix are stored. */
export interface WeightLayout {
  /** Elements of a block: a row is whole blocks. */
  readonly elements: number;
  /** Bytes of a block. */
  readonly bytes: number;
  /** Of the tensor that holds the blocks. */
  readonly dtype: DType;
  /** The dtype of one scale a block, in a tensor of its own; `float` is any float dtype. */
  readonly scales?: DType | "float";
  /** The same for one bias a block; `float` is the dtype of the scales. */
  readonly biases?: DType | "float";
  /** The unpacking of a block, and its bits of a number or ggml's number of the type; absent if the elements are floats. */
  readonly family?: string;
  readonly bits?: number;
}

/** The layout of every weight format. */
export const weightLayouts: Readonly<Record<WeightFormat, WeightLayout>> = {
  f32: { elements: 1, bytes: 4, dtype: "f32" },
  f16: { elements: 1, bytes: 2, dtype: "f16" },
  bf16: { elements: 1, bytes: 2, dtype: "bf16" },
  "affine2-g32": { elements: 32, bytes: 8, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 2 },
  "affine2-g64": { elements: 64, bytes: 16, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 2 },
  "affine2-g128": { elements: 128, bytes: 32, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 2 },
  "affine3-g32": { elements: 32, bytes: 12, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 3 },
  "affine3-g64": { elements: 64, bytes: 24, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 3 },
  "affine3-g128": { elements: 128, bytes: 48, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 3 },
  "affine4-g32": { elements: 32, bytes: 16, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 4 },
  "affine4-g64": { elements: 64, bytes: 32, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 4 },
  "affine4-g128": { elements: 128, bytes: 64, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 4 },
  "affine5-g32": { elements: 32, bytes: 20, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 5 },
  "affine5-g64": { elements: 64, bytes: 40, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 5 },
  "affine5-g128": { elements: 128, bytes: 80, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 5 },
  "affine6-g32": { elements: 32, bytes: 24, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 6 },
  "affine6-g64": { elements: 64, bytes: 48, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 6 },
  "affine6-g128": { elements: 128, bytes: 96, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 6 },
  "affine8-g32": { elements: 32, bytes: 32, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 8 },
  "affine8-g64": { elements: 64, bytes: 64, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 8 },
  "affine8-g128": { elements: 128, bytes: 128, dtype: "u32", scales: "float", biases: "float", family: "affine", bits: 8 },
  q4_0: { elements: 32, bytes: 18, dtype: "u8", family: "ggml", bits: 2 },
  q4_1: { elements: 32, bytes: 20, dtype: "u8", family: "ggml", bits: 3 },
  q5_0: { elements: 32, bytes: 22, dtype: "u8", family: "ggml", bits: 6 },
  q5_1: { elements: 32, bytes: 24, dtype: "u8", family: "ggml", bits: 7 },
  q8_0: { elements: 32, bytes: 34, dtype: "u8", family: "ggml", bits: 8 },
  q2_k: { elements: 256, bytes: 84, dtype: "u8", family: "ggml", bits: 10 },
  q3_k: { elements: 256, bytes: 110, dtype: "u8", family: "ggml", bits: 11 },
  q4_k: { elements: 256, bytes: 144, dtype: "u8", family: "ggml", bits: 12 },
  q5_k: { elements: 256, bytes: 176, dtype: "u8", family: "ggml", bits: 13 },
  q6_k: { elements: 256, bytes: 210, dtype: "u8", family: "ggml", bits: 14 },
  iq4_nl: { elements: 32, bytes: 18, dtype: "u8", family: "ggml", bits: 20 },
  iq4_xs: { elements: 256, bytes: 136, dtype: "u8", family: "ggml", bits: 23 },
  "gguf-mxfp4": { elements: 32, bytes: 17, dtype: "u8", family: "ggml", bits: 39 },
  mxfp4: { elements: 32, bytes: 16, dtype: "u32", scales: "u8", family: "micro", bits: 4 },
  mxfp8: { elements: 32, bytes: 32, dtype: "u32", scales: "u8", family: "micro", bits: 8 },
  nvfp4: { elements: 16, bytes: 8, dtype: "u32", scales: "u8", family: "micro", bits: 4 },
};
