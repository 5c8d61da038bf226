/** All benchmarks. */
import { Device } from "../lib/index.ts";
import type { Benchmark } from "./benchmark.ts";
import { attentionBenchmark } from "./cases/attention.ts";
import type { AttentionShape } from "./cases/attention.ts";
import { callBenchmarks } from "./cases/calls.ts";
import { convBenchmark } from "./cases/causal-conv1d.ts";
import { expertBenchmark, expertShapes } from "./cases/expert-linear.ts";
import { firstResultBenchmarks } from "./cases/first-result.ts";
import { stepBenchmark } from "./cases/gated-delta-step.ts";
import { deltaBenchmark } from "./cases/gated-delta.ts";
import { normBenchmark } from "./cases/gated-rms-norm.ts";
import { linearFormBenchmark, linearShapes } from "./cases/linear.ts";
import { copyBenchmark, linearBenchmark } from "./cases/plain.ts";
import { wakeBenchmarks } from "./cases/wake.ts";
import { shapesOf } from "./shapes.ts";

/** Devices by their number of threads, opened at first use. */
export class Devices implements Disposable {
  readonly #open = new Map<number, Device>();
  readonly #most: number;

  constructor() {
    using all = Device.open("cpu");
    this.#most = all.threads;
  }

  /** One thread, two, and all that the process may use. */
  get threadCounts(): readonly number[] {
    return [...new Set([1, Math.min(2, this.#most), this.#most])];
  }

  of(threads: number): Device {
    let device = this.#open.get(threads);
    if (device === undefined) this.#open.set(threads, (device = Device.open({ backend: "cpu", threads })));
    return device;
  }

  [Symbol.dispose](): void {
    for (const device of this.#open.values()) device.close();
    this.#open.clear();
  }
}

/** A step of one and of many sequences, and a prompt, without and with tokens before it. */
function attentionShapes(threads: readonly number[]): AttentionShape[] {
  return threads.flatMap((threads): AttentionShape[] => [
    { dtype: "bf16", sequences: 1, tokens: 1, past: 4095, threads, temperature: "cold" },
    { dtype: "f32", sequences: 1, tokens: 1, past: 4095, threads, temperature: "cold" },
    { dtype: "bf16", sequences: 16, tokens: 1, past: 1023, threads, temperature: "cold" },
    { dtype: "bf16", sequences: 1, tokens: 512, past: 0, threads, temperature: "hot" },
    { dtype: "f32", sequences: 1, tokens: 512, past: 0, threads, temperature: "hot" },
    { dtype: "bf16", sequences: 1, tokens: 512, past: 3584, threads, temperature: "hot" },
  ]);
}

/** The benchmarks, in the order in which they are reported. */
export function suite(devices: Devices): Benchmark[] {
  const threads = devices.threadCounts;
  const both = ["cold", "hot"] as const;
  const decode = [
    ...shapesOf({
      dtype: ["f32"],
      sequences: [1, 8],
      tokens: [1],
      valueHeads: [16, 32, 48, 64],
      threads,
      temperature: both,
    }),
    ...shapesOf({ dtype: ["f32"], sequences: [64], tokens: [1], valueHeads: [32], threads, temperature: ["cold"] }),
    ...shapesOf({
      dtype: ["bf16", "f16"],
      sequences: [1, 8],
      tokens: [1],
      valueHeads: [32],
      threads,
      temperature: both,
    }),
  ];
  const prefill = [
    ...shapesOf({
      dtype: ["f32"],
      sequences: [1],
      tokens: [512, 2048],
      valueHeads: [16, 32, 64],
      threads,
      temperature: ["hot"],
    }),
    ...shapesOf({ dtype: ["bf16"], sequences: [1], tokens: [512], valueHeads: [32], threads, temperature: ["hot"] }),
  ];
  const rows = shapesOf({
    dtype: ["f32", "bf16"],
    sequences: [1, 8],
    tokens: [1],
    valueHeads: [32],
    threads,
    temperature: both,
  });
  const longRows = shapesOf({
    dtype: ["f32", "bf16"],
    sequences: [1],
    tokens: [512, 2048],
    valueHeads: [32],
    threads,
    temperature: both,
  });
  const oneToken = shapesOf({
    dtype: ["f32", "bf16"],
    sequences: [1],
    tokens: [1],
    valueHeads: [32],
    threads,
    temperature: ["cold"],
  });
  return [
    ...[...decode, ...prefill].map((shape) => deltaBenchmark(shape, () => devices.of(shape.threads))),
    ...prefill.map((shape) => deltaBenchmark(shape, () => devices.of(shape.threads), "chunked")),
    ...[...rows, ...longRows].map((shape) => convBenchmark(shape, () => devices.of(shape.threads))),
    ...[...rows, ...longRows].map((shape) => normBenchmark(shape, () => devices.of(shape.threads))),
    ...rows.flatMap((shape) =>
      (["fused", "chain"] as const).map((how) => stepBenchmark(shape, () => devices.of(shape.threads), how)),
    ),
    ...oneToken.flatMap((shape) =>
      [linearBenchmark, copyBenchmark].map((make) => make(shape, () => devices.of(shape.threads))),
    ),
    ...attentionShapes(threads).map((shape) => attentionBenchmark(shape, () => devices.of(shape.threads))),
    ...linearShapes(threads).map((shape) => linearFormBenchmark(shape, () => devices.of(shape.threads))),
    ...expertShapes(threads).map((shape) => expertBenchmark(shape, () => devices.of(shape.threads))),
    ...callBenchmarks(() => devices.of(1)),
    ...wakeBenchmarks(threads, (count) => devices.of(count)),
    ...firstResultBenchmarks(),
  ];
}
