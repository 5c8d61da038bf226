import type { StateKind } from "../ops/layer-states.ts";
import type { FloatDType } from "../tensor/dtype.ts";

export type { StateKind };

/** The sizes and dtypes of a pool's states. Pools of the same shape can exchange states. */
export interface PoolShape {
  /** Number of Gated DeltaNet layers in the model. */
  readonly layers: number;
  /** Number of query and key heads. */
  readonly keyHeads: number;
  /** Number of value heads, a multiple of `keyHeads`. */
  readonly valueHeads: number;
  /** Elements of a query or key head. */
  readonly keyDim: number;
  /** Elements of a value head. */
  readonly valueDim: number;
  /** Whether the pool holds convolution states. */
  readonly conv: boolean;
  /** Taps of the convolution, 2..9; 0 if the pool holds no convolution states. */
  readonly convWidth: number;
  /** Number of channels of the convolution; 0 if the pool holds no convolution states. */
  readonly convChannels: number;
  /** Element type of the recurrent states. */
  readonly stateDtype: FloatDType;
  /** Element type of the convolution's states. */
  readonly convDtype: FloatDType;
}

/** Every kind of state that a pool can hold. */
const allKinds: readonly StateKind[] = ["state", "conv"];

/** The kinds of state that pools of a shape hold. */
export function kindsOf(shape: PoolShape): readonly StateKind[] {
  return shape.conv ? allKinds : ["state"];
}

/** Shape of one state of one layer: `[valueHeads, valueDim, keyDim]` or `[convChannels, convWidth − 1]`. */
export function rowShape(shape: PoolShape, kind: StateKind): readonly number[] {
  return kind === "state" ? [shape.valueHeads, shape.valueDim, shape.keyDim] : [shape.convChannels, shape.convWidth - 1];
}

/** Element type of a kind of state. */
export function dtypeOf(shape: PoolShape, kind: StateKind): FloatDType {
  return kind === "state" ? shape.stateDtype : shape.convDtype;
}
