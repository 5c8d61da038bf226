/** The fused decode step's work as the three ops that it replaces. */
import { causalConv1d, gatedDelta, gatedRmsNorm } from "../lib/index.ts";
import type { GatedDeltaStepArguments, Op, Tensor } from "../lib/index.ts";

/** Arguments of the step; `between` holds what the chain passes from op to op. */
export interface StepArguments extends GatedDeltaStepArguments {
  readonly between: { readonly conv: Tensor; readonly core: Tensor };
}

/** The same work as three ops. */
export function chainOf(call: StepArguments): readonly Op[] {
  const { x, z, gate, beta, out, state, convState, convWeight, aLog, dtBias, normWeight, keyHeads, between } = call;
  const { conv, core } = between;
  const [sequences, channels] = x.shape as [number, number];
  const [, valueHeads, dim] = z.shape as [number, number, number];
  const heads = (offset: number, count: number) =>
    conv.view({ offset, shape: [sequences, count, dim], strides: [channels, dim, 1] });
  const cuSeqlens = Array.from({ length: sequences + 1 }, (_, i) => i);
  const { gateForm, betaForm, qkNorm } = call;
  return [
    causalConv1d({ x, weight: convWeight, state: convState, out: conv, cuSeqlens }),
    gatedDelta({
      query: heads(0, keyHeads),
      key: heads(keyHeads * dim, keyHeads),
      value: heads(2 * keyHeads * dim, valueHeads),
      ...{ gate, beta, aLog, dtBias, state, out: core, cuSeqlens, gateForm, betaForm, qkNorm },
    }),
    gatedRmsNorm({ x: core, z, weight: normWeight, out }),
  ];
}
