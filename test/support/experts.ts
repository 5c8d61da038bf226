/** Random matrices of experts in any weight format. */
import type { FloatDType, Tensor, WeightFormat } from "../../lib/index.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import { dequantiseMicro } from "../reference/micro.ts";
import type { MicroName } from "../reference/micro.ts";
import { dequantise } from "../reference/quantised.ts";
import { reshape } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { fill } from "./cases.ts";
import { placeBlocks, randomBlocks, valuesOf } from "./ggml.ts";
import type { BlockName } from "./ggml.ts";
import type { Layouts } from "./layouts.ts";
import { placeMicro, randomMicro } from "./micro.ts";
import { placeQuantised, randomQuantised } from "./quantised.ts";
import type { Random } from "./random.ts";

/** The arguments of `expertLinear` that hold the matrices, or those of `linear` that hold one of them. */
export interface PlacedMatrices {
  readonly weightFormat: WeightFormat;
  readonly weight: Tensor;
  readonly scales?: Tensor;
  readonly biases?: Tensor;
}

/** Matrices of experts. */
export interface ExpertMatrices {
  /** `[experts, outFeatures, inFeatures]`: their elements. */
  readonly values: Reference;
  place(layouts: Layouts): PlacedMatrices;
  /** The arguments of one expert's matrix. */
  of(placed: PlacedMatrices, expert: number): PlacedMatrices;
}

/** Random matrices `[experts, outFeatures, inFeatures]`, whose elements are about 1 / sqrt(inFeatures) large, except in ggml's types. */
export function expertMatrices(random: Random, weightFormat: WeightFormat, shape: readonly [number, number, number], scales = random.pick(["f32", "f16", "bf16"] as const)): ExpertMatrices {
  const [experts, features, columns] = shape;
  const { bits, elements, dtype, family } = weightLayouts[weightFormat];
  const split = (tensor: Tensor) => tensor.reshape([experts, features, tensor.shape[1]!]);
  const of = ({ weightFormat: format, ...tensors }: PlacedMatrices, expert: number): PlacedMatrices => ({
    weightFormat: format,
    ...(Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, (tensor as Tensor).slice(expert, expert + 1).reshape(tensor.shape.slice(1))])) as { weight: Tensor }),
  });
  // Elements are computed on demand: most tests compare bits, and need none.
  const made = (compute: () => Reference, place: ExpertMatrices["place"]): ExpertMatrices => {
    let values: Reference | undefined;
    return { get values() { return (values ??= reshape(compute(), shape)); }, of, place };
  };
  if (bits === undefined) {
    const values = fill([...shape], weightFormat as FloatDType, () => random.normal() / Math.sqrt(columns));
    return { values, of, place: (layouts) => ({ weightFormat, weight: layouts.packed("weight", weightFormat as FloatDType, values) }) };
  }
  if (dtype === "u8") {
    const blocks = randomBlocks(random, weightFormat as BlockName, experts * features, columns / elements);
    return made(() => valuesOf(blocks), (layouts) => ({ weightFormat, weight: split(placeBlocks(layouts, blocks).weight) }));
  }
  if (family === "micro") {
    const micro = randomMicro(random, weightFormat as MicroName, [experts * features, columns]);
    return made(() => dequantiseMicro(micro), (layouts) => {
      const placed = placeMicro(layouts, micro);
      return { weightFormat, weight: split(placed.weight), scales: split(placed.scales) };
    });
  }
  const packed = randomQuantised(random, [experts * features, columns], bits, elements, scales);
  return made(() => dequantise(packed), (layouts) => {
    const placed = placeQuantised(layouts, packed, scales);
    return { weightFormat, weight: split(placed.weight), scales: split(placed.scales), biases: split(placed.biases) };
  });
}
