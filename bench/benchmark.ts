/** Benchmarks, and their timing by mitata. */
import { measure } from "mitata";
import type { Device } from "../lib/index.ts";
import type { Rotation } from "./operands.ts";
import type { Work } from "./work.ts";

/** The time that is spent on measuring. */
export interface Budget {
  /** Milliseconds for the calls of one benchmark. */
  readonly milliseconds: number;
  readonly leastSamples: number;
}

export const fullBudget: Budget = { milliseconds: 400, leastSamples: 20 };
export const quickBudget: Budget = { milliseconds: 30, leastSamples: 3 };

/** The time of a call. */
export interface Figure {
  /** The median. */
  readonly us: number;
  readonly usMin: number;
  /** Bytes of heap that a call leaves behind, if they are measured. */
  readonly heapBytesPerCall?: number;
}

export interface Benchmark {
  /** Parts between slashes: the op, dtype, sizes, threads, and whether the memory is hot or cold. */
  readonly name: string;
  readonly threads: number;
  /** The work that the limit is computed from; undefined if no limit of the machine applies. */
  readonly work: Work | undefined;
  measure(budget: Budget): Promise<Figure>;
  /** The calls of a benchmark of ops, for a device other than its own. */
  rotation?(device: Device): Rotation;
}

/**
 * Times `call` with mitata. Batches last about a millisecond: mitata's own batches of 4096 calls would take a quarter of a
 * second each for the calls that matter here.
 */
export async function time(call: () => void, budget: Budget): Promise<Figure> {
  call();
  const since = Bun.nanoseconds();
  call();
  const once = Math.max(1, Bun.nanoseconds() - since);
  const batch_samples = 4 * Math.max(1, Math.min(1024, Math.round(250_000 / once)));
  const { p50, min } = await measure(call, {
    min_cpu_time: budget.milliseconds * 1e6,
    min_samples: budget.leastSamples,
    batch_samples,
    // One collection before the first sample, so that the preparation's garbage is not collected in the middle.
    gc: () => Bun.gc(true),
  });
  return { us: p50 / 1e3, usMin: min / 1e3 };
}
