/**
 * Expectations for the GPU's rows on an M2 Max with 38 cores (400 GB/s, 13.6 TFLOP/s in float32), before any Apple GPU has run them:
 * from the same kernels on an NVIDIA H200 (bench/gpu.md), Apple's specification, and published times of MLX's kernels. The first
 * receipt is compared with them. Shares of a copy should hold on other chips; rates follow the cores and their clock.
 */

/** The least and the greatest expected value. */
export type Range = readonly [least: number, most: number];

export interface Estimate {
  /** Names of rows, in which `*` stands for any part without a slash. */
  readonly rows: string;
  /** Percent of the speed of a copy of as many bytes, or 10^9 operations a second, whichever the row has. */
  readonly range: Range;
  readonly why: string;
}

export const estimates: readonly Estimate[] = [
  { rows: "gatedDelta/f32/B1/T1/*/*", range: [50, 85], why: "4 MB: a launch is a good part of the time" },
  { rows: "gatedDelta/f32/B4/T1/*/*", range: [75, 92], why: "states go through registers once" },
  { rows: "gatedDelta/f32/B8/T1/*/*", range: [75, 93], why: "as above" },
  { rows: "gatedDelta/f32/B16/T1/*/*", range: [78, 94], why: "as above" },
  { rows: "gatedDelta/f32/B64/T1/*/*", range: [80, 95], why: "as above; 94 % on the H200" },
  { rows: "gatedDelta/bf16/B1/T1/*/*", range: [40, 80], why: "half the bytes, the same launch" },
  { rows: "gatedDelta/bf16/B8/T1/*/*", range: [60, 88], why: "conversions cost what bytes save" },
  { rows: "gatedDelta/bf16/B64/T1/*/*", range: [65, 90], why: "77 % on the H200" },
  { rows: "gatedDeltaStep/f32/B1/T1/*/*", range: [35, 60], why: "one chain of conv, recurrence and norm a head" },
  { rows: "gatedDeltaStep/f32/B4/T1/*/*", range: [50, 75], why: "more heads than cores" },
  { rows: "gatedDeltaStep/f32/B8/T1/*/*", range: [60, 82], why: "as above" },
  { rows: "gatedDeltaStep/f32/B16/T1/*/*", range: [65, 85], why: "as above" },
  { rows: "gatedDeltaStep/f32/B64/T1/*/*", range: [70, 90], why: "88 % on the H200" },
  { rows: "gatedDeltaStep-unfused/f32/B1/T1/*/*", range: [20, 45], why: "four dispatches and their barriers" },
  { rows: "gatedDeltaStep-unfused/f32/B4/T1/*/*", range: [40, 65], why: "as above" },
  { rows: "gatedDeltaStep-unfused/f32/B8/T1/*/*", range: [50, 75], why: "as above" },
  { rows: "gatedDeltaStep-unfused/f32/B16/T1/*/*", range: [60, 80], why: "as above" },
  { rows: "gatedDeltaStep-unfused/f32/B64/T1/*/*", range: [65, 88], why: "83 % on the H200" },
  { rows: "gatedDelta/f32/B1/T16/*/*", range: [300, 1200], why: "few tokens: launch and first reads" },
  { rows: "gatedDelta/f32/B1/T64/*/*", range: [700, 2000], why: "32 heads of 4 threadgroups on 38 cores" },
  { rows: "gatedDelta/f32/B1/T512/*/*", range: [1000, 2600], why: "one threadgroup's steps in sequence" },
  { rows: "gatedDelta/f32/B1/T2048/*/*", range: [1000, 2800], why: "as above" },
  { rows: "gatedDelta/f32/B8/T512/*/*", range: [2000, 5000], why: "several threadgroups a core" },
  { rows: "causalConv1d/f32/B8/T1/*/*", range: [25, 60], why: "2 MB: mostly launch" },
  { rows: "causalConv1d/f32/B64/T1/*/*", range: [60, 85], why: "84 % on the H200" },
  { rows: "causalConv1d/f32/B1/T2048/*/*", range: [75, 95], why: "91 % on the H200" },
  { rows: "gatedRmsNorm/f32/B8/T1/*/*", range: [10, 50], why: "0.4 MB: launch" },
  { rows: "gatedRmsNorm/f32/B64/T1/*/*", range: [40, 80], why: "3 MB" },
  { rows: "gatedRmsNorm/f32/B1/T2048/*/*", range: [80, 97], why: "95 % on the H200" },
  { rows: "linear/f32/R1/*/*", range: [80, 98], why: "97 % on the H200" },
  { rows: "linear/bf16/R1/*/*", range: [75, 96], why: "96 % on the H200" },
  { rows: "linear/q8/R1/*/*", range: [60, 90], why: "weights are unpacked in registers" },
  { rows: "linear/q6/R1/*/*", range: [45, 80], why: "six bits go across bytes" },
  { rows: "linear/q4/R1/*/*", range: [50, 80], why: "1.2 to 1.4 times MLX's time" },
  { rows: "linear/*/R8/*/*", range: [500, 2000], why: "one tile of rows: half bytes, half arithmetic" },
  { rows: "linear/*/R64/*/*", range: [1500, 4500], why: "no simdgroup matrices" },
  { rows: "linear/*/R512/*/*", range: [2000, 5000], why: "2 to 4 times MLX's time, which uses simdgroup matrices" },
  { rows: "attention/bf16/B1/T1+4095/*/*", range: [10, 35], why: "about a third of MLX's speed below 16,384 keys" },
  { rows: "attention/bf16/B1/T1+32767/*/*", range: [30, 65], why: "spans fill the cores" },
  { rows: "attention/bf16/B1/T512+3584/*/*", range: [1000, 3000], why: "no simdgroup matrices" },
];

/** The estimate for a row. */
export function estimateOf(name: string): Estimate | undefined {
  return estimates.find(({ rows }) => new RegExp(`^${rows.replace(/[.+]/g, "\\$&").replaceAll("*", "[^/]+")}$`).test(name));
}
