/** The weight of a matrix product as a checkpoint stores it: plain, or in MLX's affine quantised form. */

import type { Tensor } from "../tensor/tensor.ts";

/** The weight of a `linear` or an `embedding`, under the names of their arguments. */
export interface Matrix {
  /** `[outFeatures, inFeatures]`, any float dtype; with scales u32 words `[outFeatures, inFeatures · bits / 32]`. */
  readonly weight: Tensor;
  /** `[outFeatures, inFeatures / group]`, any float dtype; present exactly if `biases` is. */
  readonly scales?: Tensor;
  /** Shaped as `scales`, and of its dtype. */
  readonly biases?: Tensor;
}
