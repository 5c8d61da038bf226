/** Products with the experts' matrices: of one token, bound by the bytes of the matrices that it uses, and of a prompt's tokens. */
import { expertLinear, linear } from "../../lib/index.ts";
import type { Device, ExpertLinearArguments, LinearArguments, Tensor } from "../../lib/index.ts";
import { Random } from "../../test/support/random.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesWork, filled, opBenchmark } from "../operands.ts";
import type { Calls } from "../operands.ts";
import { words } from "./linear.ts";

/** Weights of 4 bits in groups of 64, for a mixture like Qwen3.5-35B-A3B: the experts, and those of one token. */
const [experts, k, bits, group] = [256, 8, 4, 64];
const bytesOfWeights = (bits + 32 / group) / 8;

/** A product to measure. alone: by `linear`, with as many bytes or with as many rows per matrix. */
export interface ExpertShape {
  readonly tokens: number;
  readonly inFeatures: number;
  readonly outFeatures: number;
  readonly alone: boolean;
  readonly threads: number;
}

/** Such as `expert-linear/q4/T512/8of256/2048x1024/t2/cold`: tokens, experts, in by out features, threads. */
export function expertName({ tokens, inFeatures, outFeatures, alone, threads }: ExpertShape): string {
  return `${alone ? "linear-alone" : "expert-linear"}/q4/T${tokens}/${k}of${experts}/${inFeatures}x${outFeatures}/t${threads}/cold`;
}

/** The matrices of all experts, and rows with ids: for one token each, or for a prompt. */
function operands(device: Device, { tokens, inFeatures, outFeatures }: ExpertShape) {
  const size = 1 / Math.sqrt(inFeatures);
  const weight = words(device, [experts * outFeatures, (inFeatures * bits) / 32]);
  const scales = filled(device, "bf16", [experts * outFeatures, inFeatures / group], 0, size / 2 ** bits);
  const biases = filled(device, "bf16", [experts * outFeatures, inFeatures / group], -size, 0);
  const random = new Random(tokens);
  const x = filled(device, "f32", [tokens, inFeatures]);
  // Single tokens go through all experts in turn, so that none is in a cache; a prompt's tokens choose theirs at random.
  const ids = Array.from({ length: tokens === 1 ? experts / k : 1 }, (_, turn) =>
    device.tensor("id32", [tokens, k]).copyFrom(Array.from({ length: tokens }, () => (tokens === 1 ? Array.from({ length: k }, (_, j) => turn * k + j) : random.distinct(k, experts))).flat()),
  );
  return { x, weight, scales, biases, ids };
}

/** `expertLinear`'s calls. */
export function expertCalls(device: Device, shape: ExpertShape): Calls<ExpertLinearArguments> {
  const { x, ids, ...matrices } = operands(device, shape);
  const out = filled(device, "f32", [shape.tokens, k, shape.outFeatures]);
  const split = (tensor: Tensor) => tensor.reshape([experts, shape.outFeatures, tensor.shape[1]!]);
  const [weight, scales, biases] = [split(matrices.weight), split(matrices.scales), split(matrices.biases)];
  return { calls: ids.map((some) => ({ x, weight, scales, biases, ids: some, out })), tensors: [x, out, ...ids, ...Object.values(matrices)] };
}

/** As much work for `linear`: one row by all outputs of a token's experts together, or the rows of a prompt by each expert. */
export function aloneCalls(device: Device, shape: ExpertShape): Calls<readonly LinearArguments[]> {
  const { tokens, outFeatures } = shape;
  const { x, ids, ...matrices } = operands(device, shape);
  const of = (first: number, count: number) => Object.fromEntries(Object.entries(matrices).map(([name, tensor]) => [name, tensor.slice(first * outFeatures, (first + count) * outFeatures)])) as { weight: Tensor };
  const out = filled(device, "f32", tokens === 1 ? [1, k * outFeatures] : [tokens, outFeatures]);
  const tensors = [x, out, ...ids, ...Object.values(matrices)];
  if (tokens === 1) return { calls: Array.from({ length: experts / k }, (_, turn) => [{ x, ...of(turn * k, k), out }]), tensors };
  const rows = new Array<number>(experts).fill(0);
  for (const id of ids[0]!.data) rows[id]!++;
  return { calls: [rows.flatMap((count, expert) => (count === 0 ? [] : [{ x: x.slice(0, count), ...of(expert, 1), out: out.slice(0, count) }]))], tensors };
}

export function expertBenchmark(shape: ExpertShape, device: () => Device): Benchmark {
  const { tokens, inFeatures, outFeatures, alone, threads } = shape;
  const bytes = k * outFeatures * inFeatures * bytesOfWeights;
  const work = tokens === 1 ? bytesWork("cold", bytes, "read", bytes) : ({ kind: "multiply-adds", count: tokens * k * inFeatures * outFeatures } as const);
  return opBenchmark(expertName(shape), device, threads, work, (opened) => {
    if (alone) {
      const { calls, tensors } = aloneCalls(opened, shape);
      return { calls: calls.map((list) => list.map((args) => linear(args))), tensors };
    }
    const { calls, tensors } = expertCalls(opened, shape);
    return { calls: calls.map((args) => [expertLinear(args)]), tensors };
  });
}

/** Gate and up for a token and for prompts, and down for as many; each next to `linear`. */
export function expertShapes(threads: readonly number[]): ExpertShape[] {
  return [1, 8, 64, 512].flatMap((tokens) =>
    ([[2048, 1024], [512, 2048]] as const).flatMap(([inFeatures, outFeatures]) =>
      threads.flatMap((count) => [false, true].map((alone) => ({ tokens, inFeatures, outFeatures, alone, threads: count }))),
    ),
  );
}
