/** Runs sequences of hidden states through a layer, split into calls as a test requires. */
import { StatePool } from "../../lib/index.ts";
import type { FloatDType, GatedDeltaNet } from "../../lib/index.ts";
import { round } from "../reference/rounding.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import type { Random } from "./random.ts";

/** A piece of a sequence: how many of its next tokens a call runs. */
export type Call = readonly { readonly sequence: number; readonly tokens: number }[];

/** Runs sequences of hidden states through a layer, call by call; tokens of each sequence come back in order. */
export function drive(
  layer: GatedDeltaNet,
  hidden: readonly Reference[],
  calls: readonly Call[],
  how: "forward" | "decode" = "forward",
  pools: { stateDtype?: FloatDType; convDtype?: FloatDType } = {},
): { outputs: Float32Array[]; states: Float32Array[] } {
  const { device } = layer;
  const width = layer.config.hiddenSize;
  using pool = StatePool.create(device, { slots: hidden.length, layers: 1, ...layer.stateShape, ...pools });
  const handles = hidden.map(() => pool.allocate());
  const done = hidden.map(() => 0);
  const outputs = hidden.map(({ data }) => new Float32Array(data.length));
  for (const call of calls) {
    const total = call.reduce((sum, { tokens }) => sum + tokens, 0);
    using input = device.tensor(layer.dtype, [total, width]);
    using out = device.tensor("f32", [total, width]);
    const cuSeqlens = [0];
    const given = call.flatMap(({ sequence, tokens }) => {
      cuSeqlens.push(cuSeqlens.at(-1)! + tokens);
      const from = done[sequence]!;
      return [...hidden[sequence]!.data.subarray(from * width, (from + tokens) * width)];
    });
    input.copyFrom(given);
    pool.run(call.map(({ sequence }) => handles[sequence]!), (step) => how === "decode" && total === call.length
      ? layer.decode({ hidden: input, out, step })
      : layer.forward({ hidden: input, out, cuSeqlens, step }));
    device.wait();
    call.forEach(({ sequence, tokens }, i) => {
      outputs[sequence]!.set(out.data.subarray(cuSeqlens[i]! * width, cuSeqlens[i + 1]! * width), done[sequence]! * width);
      done[sequence]! += tokens;
    });
  }
  const stateAt = (slot: number) => (slot < 0 ? new Float32Array() : pool.state(0).slice(slot, slot + 1).toFloat32());
  const states = handles.map(({ slot }) => stateAt(slot));
  return { outputs, states };
}

/** Random hidden states of sequences of these lengths, as `dtype` holds them. */
export function randomHidden(random: Random, lengths: readonly number[], width: number, dtype: FloatDType = "f32"): Reference[] {
  return lengths.map((tokens) => {
    const shape = [tokens, width];
    return { shape, data: reference(shape).data.map(() => round(dtype, random.normal())) };
  });
}

/** All sequences in one call. */
export const together = (lengths: readonly number[]): Call => lengths.map((tokens, sequence) => ({ sequence, tokens }));
