/** The work for the measurements of threads: a call is one submission, encoded from JavaScript and waited for. */
import { causalConv1d, gatedDelta, gatedRmsNorm } from "../../lib/index.ts";
import type { Device, Op } from "../../lib/index.ts";
import { convCalls } from "../cases/causal-conv1d.ts";
import { deltaCalls } from "../cases/gated-delta.ts";
import { normCalls } from "../cases/gated-rms-norm.ts";
import type { Shape } from "../shapes.ts";

const hot = { dtype: "f32", sequences: 1, tokens: 1, valueHeads: 32, threads: 1, temperature: "hot" } as const;

/** The ops of a layer's unfused decode step, `layers` times. */
function steps(device: Device, layers: number): Op[] {
  const shape: Shape = { ...hot, valueHeads: 16 };
  const of = [
    causalConv1d(convCalls(device, shape).calls[0]!),
    gatedDelta(deltaCalls(device, shape).calls[0]!),
    gatedRmsNorm(normCalls(device, shape).calls[0]!),
  ];
  return Array.from({ length: layers }, () => of).flat();
}

/** The ops of a call, by the workload's name. */
export const workloads = {
  /** A prompt: milliseconds per op. */
  prefill: (device: Device): Op[] => [gatedDelta(deltaCalls(device, { ...hot, tokens: 512 }).calls[0]!)],
  /** One op of a tenth of a millisecond or more. */
  decode: (device: Device): Op[] => [gatedDelta(deltaCalls(device, { ...hot, sequences: 8 }).calls[0]!)],
  /** 72 ops of a few microseconds: 24 layers for a token. */
  small: (device: Device): Op[] => steps(device, 24),
} as const;

export type WorkloadName = keyof typeof workloads;

/** One call of a workload, as a function. */
export function callOf(device: Device, name: WorkloadName): () => void {
  const plan = device.plan((pass) => {
    for (const op of workloads[name](device)) pass.encode(op);
  });
  return () => {
    plan.run();
    device.wait();
  };
}
