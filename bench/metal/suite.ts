/** The GPU's benchmarks, at the sizes that bench/gpu.md has for another GPU. */
import type { Benchmark } from "../benchmark.ts";
import { attentionBenchmark } from "../cases/attention.ts";
import { convBenchmark } from "../cases/causal-conv1d.ts";
import { stepBenchmark } from "../cases/gated-delta-step.ts";
import { deltaBenchmark } from "../cases/gated-delta.ts";
import { normBenchmark } from "../cases/gated-rms-norm.ts";
import { linearFormBenchmark } from "../cases/linear.ts";
import type { LinearShape } from "../cases/linear.ts";
import { shapesOf } from "../shapes.ts";
import type { Shape } from "../shapes.ts";

/** `measureOnGpu` measures these: they are never timed by the clock. */
const none = () => {
  throw new Error("a benchmark of the GPU has no device of its own");
};

function shapes(dtype: Shape["dtype"], sequences: readonly number[], tokens: number, valueHeads = 32): Shape[] {
  return shapesOf({ dtype: [dtype], sequences, tokens: [tokens], valueHeads: [valueHeads], threads: [1], temperature: ["cold"] });
}

function linears(): LinearShape[] {
  const square = { inFeatures: 4096, outFeatures: 4096, threads: 1, temperature: "cold" } as const;
  return (["f32", "bf16", "q8", "q6", "q4"] as const).flatMap((form) => [1, 8, 64, 512].map((rows) => ({ form, rows, ...square })));
}

/** The benchmarks, whose names leave out the number of threads, since a GPU has none. */
export function metalSuite(): Benchmark[] {
  const few = [1, 4, 8, 16, 64];
  const all = [
    ...[...shapes("f32", few, 1), ...shapes("bf16", [1, 8, 64], 1)].map((shape) => deltaBenchmark(shape, none)),
    ...shapes("f32", few, 1).flatMap((shape) => (["fused", "chain"] as const).map((how) => stepBenchmark(shape, none, how))),
    ...[...[16, 64, 512, 2048].flatMap((tokens) => shapes("f32", [1], tokens)), ...shapes("f32", [8], 512)].map((shape) => deltaBenchmark(shape, none)),
    ...[...shapes("f32", [8, 64], 1), ...shapes("f32", [1], 2048)].flatMap((shape) => [convBenchmark(shape, none), normBenchmark(shape, none)]),
    ...linears().map((shape) => linearFormBenchmark(shape, none)),
    ...[4095, 32767].map((past) => attentionBenchmark({ dtype: "bf16", sequences: 1, tokens: 1, past, threads: 1, temperature: "cold" }, none)),
    attentionBenchmark({ dtype: "bf16", sequences: 1, tokens: 512, past: 3584, threads: 1, temperature: "cold" }, none),
  ];
  return all.map((benchmark) => ({ ...benchmark, name: benchmark.name.replace(/\/t1(?=\/)/, "") }));
}
