/** The least work of a benchmark's call, and the time for it at the machine's limit. */
import type { Pattern, Probe } from "./native/probe.ts";

/** Bytes that must be moved, of a working set that either stays in a cache or does not; or multiply-adds that must be done. */
export type Work =
  | { readonly kind: "bytes"; readonly bytes: number; readonly pattern: Pattern; readonly workingSet: number }
  | { readonly kind: "multiply-adds"; readonly count: number };

/** The probed limit of a call. */
export interface Limit {
  readonly us: number;
  /** The probed limit, as text. */
  readonly text: string;
}

/** Probes the limit of `work` on `threads` threads, next to the measurement that it is compared with. */
export function limitOf(probe: Probe, work: Work, threads: number, milliseconds: number): Limit {
  if (work.kind === "bytes") {
    const rate = probe.bandwidth(work.pattern, work.workingSet, threads, milliseconds);
    return {
      us: (work.bytes / rate) * 1e6,
      text: `${work.pattern} ${(rate / 1e9).toFixed(1)} GB/s, ${sizeText(work.workingSet)}`,
    };
  }
  const rate = probe.multiplyAdds(threads, milliseconds);
  return { us: (work.count / rate) * 1e6, text: `${(rate / 1e9).toFixed(1)} G multiply-adds/s` };
}

/** The rate of a call of `us` microseconds: GB/s, or GFLOP/s with two operations per multiply-add. */
export function rateOf(work: Work, us: number): { readonly rate: number; readonly unit: "GB/s" | "GFLOP/s" } {
  if (work.kind === "bytes") return { rate: work.bytes / us / 1e3, unit: "GB/s" };
  return { rate: (2 * work.count) / us / 1e3, unit: "GFLOP/s" };
}

function sizeText(bytes: number): string {
  return bytes < 2 ** 20 ? `${Math.round(bytes / 2 ** 10)} KiB` : `${Math.round(bytes / 2 ** 20)} MiB`;
}
