/** Quantised modules in the form that mlx-lm writes. */
import { encode } from "../../lib/tensor/dtype.ts";
import type { FloatDType } from "../../lib/index.ts";
import { fileDTypes } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import type { Quantised } from "../reference/quantised.ts";

/** A module's three tensors. */
export function quantisedTensors(module: string, { words, scales, biases }: Quantised, format: FloatDType): Record<string, TensorToWrite> {
  const floats = ({ shape, data }: typeof scales): TensorToWrite => ({ dtype: fileDTypes[format], shape, data: encode(format, data) });
  return {
    [`${module}.weight`]: { dtype: "U32", shape: words.shape, data: Uint32Array.from(words.data) },
    [`${module}.scales`]: floats(scales),
    [`${module}.biases`]: floats(biases),
  };
}
