/** Times of a GPU, as Metal reports them for each command buffer, and the copy that they are compared with. */
import type { Device } from "../../lib/index.ts";
import type { Benchmark } from "../benchmark.ts";
import { copyCalls } from "../cases/plain.ts";
import type { Rotation, Temperature } from "../operands.ts";
import { dim } from "../shapes.ts";
import { copySlots } from "../../lib/index.ts";
import { estimateOf } from "./estimates.ts";
import type { Range } from "./estimates.ts";
import { gpuNanoseconds } from "./gpu-time.ts";

/** A line of the GPU's results. */
export interface MetalRow {
  readonly name: string;
  /** The GPU's time for a call: the median, and the least. */
  readonly us: number;
  readonly usMin: number;
  /** The least bytes that a call moves, and the time of a copy of as many, probed before and after it; null if arithmetic is the limit. */
  readonly bytes: number | null;
  readonly copyUs: number | null;
  readonly sharePercent: number | null;
  /** 10^9 operations a second, two per multiply-add, if these are the limit. */
  readonly gflops: number | null;
  /** The estimate of that share or rate on an M2 Max; null for a row without one. */
  readonly estimate: Range | null;
}

/** How much to measure. */
export interface MetalBudget {
  /** Calls before the first that is counted: the GPU's clock must rise first, and pipelines must be compiled. */
  readonly warmUp: number;
  readonly samples: number;
}

export const fullMetalBudget: MetalBudget = { warmUp: 20, samples: 51 };
export const quickMetalBudget: MetalBudget = { warmUp: 1, samples: 3 };

/** The median and the least GPU time of a call, in microseconds. Each call is its own submission, so that none overlaps another. */
function timesOf(device: Device, { calls }: Rotation, { warmUp, samples }: MetalBudget): { readonly us: number; readonly usMin: number } {
  const call = (i: number) => {
    const before = gpuNanoseconds(device);
    device.run(...calls[i % calls.length]!);
    device.wait();
    return (gpuNanoseconds(device) - before) / 1e3;
  };
  for (let i = 0; i < warmUp; i++) call(i);
  const times = Array.from({ length: samples }, (_, i) => call(warmUp + i)).sort((a, b) => a - b);
  return { us: times[times.length >> 1]!, usMin: times[0]! };
}

function disposing<Result>(rotation: Rotation, body: (rotation: Rotation) => Result): Result {
  try {
    return body(rotation);
  } finally {
    for (const tensor of rotation.tensors) tensor[Symbol.dispose]();
  }
}

/** The time of a copy that moves about as many bytes, half of them read and half written, scaled to this number. */
function copyUs(device: Device, bytes: number, temperature: Temperature, budget: MetalBudget): number {
  const slot = 2 * dim * dim * 4;
  const slots = Math.max(1, Math.round(bytes / slot));
  const { calls, tensors } = copyCalls(device, { dtype: "f32", sequences: slots, tokens: 1, valueHeads: 1, threads: 1, temperature });
  return disposing({ calls: calls.map((args) => [copySlots(args)]), tensors }, (rotation) => (timesOf(device, rotation, budget).us * bytes) / (slots * slot));
}

/** `copyTemperature`: "cold" goes through more memory than any cache holds, as the benchmarks do. */
export function measureOnGpu(device: Device, benchmark: Benchmark, budget: MetalBudget, copyTemperature: Temperature = "cold"): MetalRow {
  const { name, work } = benchmark;
  const rotation = benchmark.rotation?.(device);
  if (rotation === undefined || work === undefined) throw new Error(`${name}: not a benchmark of ops`);
  const few = { ...budget, samples: Math.ceil(budget.samples / 3) };
  const probe = () => (work.kind === "bytes" ? copyUs(device, work.bytes, copyTemperature, few) : null);
  const before = probe();
  const times = disposing(rotation, (calls) => timesOf(device, calls, budget));
  const after = probe();
  const copy = before === null || after === null ? null : Math.min(before, after);
  return {
    name,
    ...times,
    bytes: work.kind === "bytes" ? work.bytes : null,
    copyUs: copy,
    sharePercent: copy === null ? null : (100 * copy) / times.us,
    gflops: work.kind === "bytes" ? null : (2 * work.count) / times.us / 1e3,
    estimate: estimateOf(name)?.range ?? null,
  };
}

export const metalHeading = `${"on the GPU".padEnd(52)} ${"µs".padStart(11)} ${"of a copy".padStart(10)} ${"GFLOP/s".padStart(10)} ${"expected".padStart(12)}`;

export function metalText({ name, us, sharePercent, gflops, estimate }: MetalRow): string {
  const percent = sharePercent === null ? "" : `${sharePercent.toFixed(1)} %`;
  return `${name.padEnd(52)} ${us.toFixed(us < 1000 ? 2 : 0).padStart(11)} ${percent.padStart(10)} ${(gflops?.toFixed(0) ?? "").padStart(10)} ${(estimate?.join(" to ") ?? "").padStart(12)}`;
}
