/** The weight of a matrix product as a checkpoint stores it, in any weight format. */

import type { ActivationForm, WeightFormat } from "../native/options.ts";
import { weightLayouts } from "../native/weight-formats.ts";
import { dtypes, type DType, type FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** The weight of a `linear` or an `embedding`, or those of experts for an `expertLinear`, under the names of their arguments. */
export interface Matrix {
  readonly weightFormat: WeightFormat;
  /** The format's blocks; for floats `[outFeatures, inFeatures]`. All parts of experts' matrices have an additional outer dimension. */
  readonly weight: Tensor;
  /** `[outFeatures, blocks of a row]`, if the format has scales. */
  readonly scales?: Tensor;
  /** `[outFeatures, blocks of a row]`, if the format has biases. */
  readonly biases?: Tensor;
  /** How rows are multiplied by the matrix, if not exactly. */
  readonly activations?: ActivationForm;
}

/** How rows are multiplied by one matrix of a model. */
export interface MatrixUse {
  /** The name of the matrix's module in the checkpoint; the first of several that were joined. */
  readonly name: string;
  /** How the matrix is stored. */
  readonly weightFormat: WeightFormat;
  /** `int8` only where the model has such activations and the weights are integers times scales. */
  readonly activations: ActivationForm;
}

/** Whether a format's weights are integers times scales, which rows of 8-bit integers can be multiplied by. Floats of four bits are halves of integers. */
export function hasIntegers(weightFormat: WeightFormat): boolean {
  const { family, bits } = weightLayouts[weightFormat];
  return family === "affine" || family === "ggml" || (family === "micro" && bits === 4);
}

/** Dtype and shape of one tensor of a matrix. */
export interface MatrixPart {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** The stored form of a matrix: a {@link Matrix} without its memory. */
export interface StoredMatrix {
  readonly weightFormat: WeightFormat;
  readonly weight: MatrixPart;
  readonly scales?: MatrixPart;
  readonly biases?: MatrixPart;
}

/**
 * The tensors of a matrix `[rows, columns]`, whose columns are whole blocks.
 *
 * @param rows one dimension, or several: those of experts, and the rows of each.
 * @param floats the dtype of scales and biases, if the format leaves it open.
 */
export function storedMatrix(weightFormat: WeightFormat, rows: readonly number[], columns: number, floats: FloatDType = "f32"): StoredMatrix {
  const { elements, bytes, dtype, scales, biases } = weightLayouts[weightFormat];
  const blocks = columns / elements;
  const companion = (given: DType | "float"): MatrixPart => ({ dtype: given === "float" ? floats : given, shape: [...rows, blocks] });
  return {
    weightFormat,
    weight: { dtype, shape: [...rows, (blocks * bytes) / dtypes[dtype].bytes] },
    ...(scales !== undefined && { scales: companion(scales) }),
    ...(biases !== undefined && { biases: companion(biases) }),
  };
}

/** The matrix whose tensors `make` makes, one for each part of a stored matrix. */
export function matrixOf({ weightFormat, weight, scales, biases }: StoredMatrix, make: (name: "weight" | "scales" | "biases", part: MatrixPart) => Tensor): Matrix {
  return {
    weightFormat,
    weight: make("weight", weight),
    ...(scales && { scales: make("scales", scales) }),
    ...(biases && { biases: make("biases", biases) }),
  };
}
