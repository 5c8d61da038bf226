/** Tensors for benchmarks, and the rotation through more memory than any cache holds. */
import { Random } from "../test/support/random.ts";
import type { Device, FloatDType, Op, Tensor } from "../lib/index.ts";
import { time } from "./benchmark.ts";
import type { Benchmark, Budget, Figure } from "./benchmark.ts";
import { coldBytes } from "./native/probe.ts";
import type { Pattern } from "./native/probe.ts";
import type { Work } from "./work.ts";

export type Temperature = "hot" | "cold";

export const bytesOf = { f32: 4, f16: 2, bf16: 2 } as const satisfies Record<FloatDType, number>;

/**
 * A tensor of numbers from `low` to `high`. They repeat: half a gigabyte of different ones would take longer than the
 * benchmark. Every page is written, since pages that were never written share one page of zeros.
 */
export function filled<D extends FloatDType>(
  device: Device,
  dtype: D,
  shape: readonly number[],
  low = -1,
  high = 1,
): Tensor<D> {
  const tensor = device.tensor(dtype, shape);
  const data = tensor.data;
  const length = Math.min(data.length, 8191);
  const random = new Random(data.length);
  using few = device.tensorFrom(
    dtype,
    [length],
    Float32Array.from({ length }, () => random.uniform(low, high)),
  );
  data.set(few.data as typeof data);
  for (let done = length; done < data.length; done *= 2) data.copyWithin(done, 0, Math.min(done, data.length - done));
  return tensor;
}

/** The number of copies of a call's memory that the calls rotate through: one, or more than any cache holds. */
export function copiesOf(temperature: Temperature, bytes: number): number {
  return temperature === "hot" ? 1 : Math.ceil(coldBytes / bytes) + 1;
}

/** The arguments of a benchmark's calls, each with its own tensors, and the tensors to dispose of afterwards. */
export interface Calls<Arguments> {
  readonly calls: readonly Arguments[];
  readonly tensors: readonly Disposable[];
}

/** The calls of a benchmark, one after the other, each on memory of its own. */
export type Rotation = Calls<readonly Op[]>;

/** A benchmark of ops: its calls run and are waited for one by one. */
export function opBenchmark(
  name: string,
  device: () => Device,
  threads: number,
  work: Work,
  make: (device: Device) => Rotation,
): Benchmark {
  return {
    name,
    threads,
    work,
    rotation: make,
    async measure(budget: Budget): Promise<Figure> {
      const opened = device();
      const { calls, tensors } = make(opened);
      let at = 0;
      try {
        return await time(() => {
          opened.run(...calls[at]!);
          opened.wait();
          if (++at === calls.length) at = 0;
        }, budget);
      } finally {
        for (const tensor of tensors) tensor[Symbol.dispose]();
      }
    },
  };
}

/** Work measured in bytes: from memory, or from the cache that holds the call's operands. */
export function bytesWork(temperature: Temperature, bytes: number, pattern: Pattern, footprint: number): Work {
  return { kind: "bytes", bytes, pattern, workingSet: temperature === "cold" ? coldBytes : footprint };
}
