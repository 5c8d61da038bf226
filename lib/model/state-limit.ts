/** Refuses more states than the tensors of one layer can hold. */
import { ShapeError } from "../errors.ts";
import { convChannels, valueChannels } from "../checkpoint/mixer-config.ts";
import type { LayerConfig } from "../checkpoint/mixer-config.ts";
import { dtypes } from "../tensor/dtype.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { largestBytes } from "../tensor/shape.ts";

/** @throws {ShapeError} if the states of one layer would be longer than a tensor can be. */
export function expectStatesFit(
  op: string,
  argument: string,
  slots: number,
  mixer: LayerConfig,
  { state, conv }: { readonly state: FloatDType; readonly conv: FloatDType },
): void {
  const recurrent = valueChannels(mixer) * mixer.keyDim * dtypes[state].bytes;
  const rolling = convChannels(mixer) * (mixer.convWidth - 1) * dtypes[conv].bytes;
  const most = Math.floor(largestBytes / Math.max(recurrent, rolling));
  if (slots <= most) return;
  throw new ShapeError({ op, argument, expected: `at most ${most}, so that the states of one layer fit in a tensor`, received: `${slots}` });
}
