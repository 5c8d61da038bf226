/** Writes states to a file. */
import type { FloatDType } from "../../tensor/dtype.ts";
import { dtypeOf } from "../pool-shape.ts";
import type { PoolShape, StateKind } from "../pool-shape.ts";
import { writeChecked } from "../../checkpoint/checked-file.ts";
import { fileDTypes } from "../../checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../checkpoint/safetensors.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { converted, metadataOf, rowOf, stateFormat, tensorsOf } from "./format.ts";

/** The pools of every layer, as files read and write them. */
export interface StateTensors {
  readonly shape: PoolShape;
  tensor(layer: number, kind: StateKind): Tensor;
}

/** Options of {@link StatePool.save}. */
export interface SaveOptions {
  /** Element type of the recurrent states in the file. @default the pool's */
  readonly stateDtype?: FloatDType | undefined;
  /** Element type of the convolution states in the file. @default the pool's */
  readonly convDtype?: FloatDType | undefined;
}

/** Writes the states in some slots; −1 stands for zeros. */
export function saveStates(pool: StateTensors, slots: readonly number[], path: string, options: SaveOptions): void {
  const { stateDtype = pool.shape.stateDtype, convDtype = pool.shape.convDtype } = options;
  const shape = { ...pool.shape, stateDtype, convDtype };
  const tensors = new Map<string, TensorToWrite>();
  for (const { name, layer, kind, shape: dims } of tensorsOf(shape, slots.length)) {
    const to = dtypeOf(shape, kind);
    const rows = slots.map((slot) => converted(rowOf(pool.tensor(layer, kind), slot), dtypeOf(pool.shape, kind), to));
    tensors.set(name, { dtype: fileDTypes[to], shape: dims, data: rows });
  }
  writeChecked("pool.save", path, stateFormat, metadataOf(shape, slots.length), tensors);
}
