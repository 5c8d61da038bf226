/** The memory of a pool: for each layer a tensor of recurrent states and one of convolution states, in slots. */
import { asInteger, invalid } from "../arguments/checks.ts";
import { checkOptions } from "../arguments/options.ts";
import type { Device } from "../device/device.ts";
import { GatedDeltaError, ShapeError } from "../errors.ts";
import { dtypes } from "../tensor/dtype.ts";
import { sizeOf } from "../tensor/strides.ts";
import { guardTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { StatePoolOptions } from "./pool-options.ts";
import { dtypeOf, kindsOf, rowShape } from "./pool-shape.ts";
import type { PoolShape, StateKind } from "./pool-shape.ts";
import { statePoolOptions } from "./state-schemas.ts";

/** Checks the options of a pool. */
export function asPoolShape(op: string, options: StatePoolOptions): { readonly slots: number; readonly shape: PoolShape } {
  const checked = checkOptions(statePoolOptions, op, options);
  const { slots, layers, keyHeads, valueHeads, keyDim, valueDim, conv, convWidth, stateDtype, convDtype } = checked;
  if (valueHeads % keyHeads !== 0) {
    const expected = `a multiple of keyHeads, ${keyHeads}`;
    throw new ShapeError({ op, argument: "valueHeads", expected, received: `${valueHeads}` });
  }
  if (conv && convWidth === undefined) throw invalid(op, "convWidth", "an integer in 2..9, or conv: false", convWidth);
  const convChannels = checked.convChannels ?? 2 * keyHeads * keyDim + valueHeads * valueDim;
  const convolution = conv ? { conv, convWidth: convWidth!, convChannels } : { conv, convWidth: 0, convChannels: 0 };
  const shape = { layers, keyHeads, valueHeads, keyDim, valueDim, ...convolution, stateDtype, convDtype };
  return { slots, shape: Object.freeze(shape) };
}

/** The tensors of a pool. Ops refuse them unless they come through a step or draft. */
export class PoolTensors {
  readonly shape: PoolShape;
  readonly #tensors: Readonly<Record<StateKind, Tensor[]>> = { state: [], conv: [] };

  constructor(device: Device, slots: number, shape: PoolShape) {
    this.shape = shape;
    try {
      for (let layer = 0; layer < shape.layers; layer++) {
        for (const kind of kindsOf(shape)) {
          const tensor: Tensor = device.tensor(dtypeOf(shape, kind), [slots, ...rowShape(shape, kind)]);
          guardTensor(tensor);
          this.#tensors[kind].push(tensor);
        }
      }
    } catch (error) {
      this.dispose();
      if (!(error instanceof ShapeError)) throw error;
      const { expected, received } = error;
      throw new ShapeError({ op: "StatePool.create", argument: "slots", expected: `states of a layer with ${expected}`, received, cause: error });
    }
  }

  /** Bytes of one slot in all layers. */
  get slotBytes(): number {
    const { shape } = this;
    const bytes = (kind: StateKind) => sizeOf(rowShape(shape, kind)) * dtypes[dtypeOf(shape, kind)].bytes;
    return shape.layers * kindsOf(shape).reduce((sum, kind) => sum + bytes(kind), 0);
  }

  /** A tensor of a valid layer and kind. */
  tensor(layer: number, kind: StateKind): Tensor {
    return this.#tensors[kind][layer]!;
  }

  /** The tensor of a layer and kind that a caller chose. */
  find(op: string, layer: number, kind: StateKind): Tensor {
    const index = asInteger(op, "layer", layer, 0, this.shape.layers - 1);
    const tensor = this.#tensors[kind][index];
    if (tensor !== undefined) return tensor;
    const expected = "a pool that holds convolution states";
    throw new GatedDeltaError("invalid-argument", { op, expected, received: "one created with conv: false" });
  }

  dispose(): void {
    for (const tensor of [...this.#tensors.state, ...this.#tensors.conv]) tensor[Symbol.dispose]();
  }
}
