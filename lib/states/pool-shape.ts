import type { FloatDType } from "../tensor/dtype.ts";

/** The sizes and dtypes of a pool's states, slots apart: two pools of the same shape can exchange states. */
export interface PoolShape {
  /** Gated DeltaNet layers of the model. */
  readonly layers: number;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  /** Taps of the convolution. */
  readonly convWidth: number;
  /** Channels of the convolution. */
  readonly convChannels: number;
  /** Element type of the recurrent states. */
  readonly stateDtype: FloatDType;
  /** Element type of the convolution's states. */
  readonly convDtype: FloatDType;
}

/** The two kinds of state. */
export type StateKind = "state" | "conv";

/** Shape of one state of one layer: `[valueHeads, valueDim, keyDim]` or `[convChannels, convWidth − 1]`. */
export function rowShape(shape: PoolShape, kind: StateKind): readonly number[] {
  return kind === "state" ? [shape.valueHeads, shape.valueDim, shape.keyDim] : [shape.convChannels, shape.convWidth - 1];
}

/** Element type of a kind of state. */
export function dtypeOf(shape: PoolShape, kind: StateKind): FloatDType {
  return kind === "state" ? shape.stateDtype : shape.convDtype;
}
