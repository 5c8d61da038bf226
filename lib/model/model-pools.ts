/** The memory of a model's states, keys and values. */
import type { Device } from "../device/device.ts";
import { StatePool } from "../states/state-pool.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { ModelConfig } from "./model-config.ts";
import { PagePool } from "./page-pool.ts";

/** States for that many sequences. */
export function makeStates(device: Device, config: ModelConfig, { slots, stateDtype, dtype }: { slots: number; stateDtype: FloatDType; dtype: FloatDType }): StatePool {
  const { keyHeads, valueHeads, keyDim, valueDim, convWidth } = config.mixer;
  const layers = config.layers.filter((type) => type === "gatedDelta").length;
  return StatePool.create(device, { slots, layers, keyHeads, valueHeads, keyDim, valueDim, convWidth, stateDtype, convDtype: dtype });
}

/** Pages for that many sequences. Without attention layers there are no keys: each sequence has one endless page without memory. */
export function makePages(
  op: string,
  device: Device,
  config: ModelConfig,
  { slots, ...pages }: { slots: number; count: number; tokens: number; dtype: FloatDType },
): PagePool {
  const layers = config.layers.filter((type) => type === "attention").length;
  const { kvHeads, headDim } = config.attention;
  const { count, tokens } = layers > 0 ? pages : { count: slots, tokens: 2 ** 31 };
  return new PagePool(op, device, { layers, count, tokens, kvHeads, headDim, dtype: pages.dtype });
}
