/** Targets of the kernels' times on an H200, against their times before (at 694227e) and in a run. */
import type { Timed } from "./report.ts";

type Target = {
  readonly what: string;
  readonly before: string;
  readonly case: string;
  /** At most so many microseconds, or at least such a share of the copy, in percent. */
  readonly limit: { readonly microseconds: number } | { readonly share: number };
};

const list: readonly Target[] = [
  { what: "decode B = 64", before: "78 %", case: "decode/B64", limit: { share: 92 } },
  { what: "decode B = 8", before: "83 %", case: "decode/B8", limit: { share: 86 } },
  { what: "decode B = 1 (llama.cpp 3.39 µs)", before: "3.92 µs", case: "decode/B1", limit: { microseconds: 3.46 } },
  { what: "decode, bf16 states, B = 64", before: "60.9 µs", case: "decode/bf16/B64", limit: { microseconds: 45 } },
  { what: "fused step B = 1", before: "14.2 µs", case: "step/B1", limit: { microseconds: 6.2 } },
  { what: "fused step B = 8", before: "18.2 µs", case: "step/B8", limit: { microseconds: 14.2 } },
  { what: "fused step B = 64", before: "85.1 µs", case: "step/B64", limit: { microseconds: 78 } },
  { what: "prefill T = 64", before: "25.4 µs", case: "prefill/B1/T64", limit: { microseconds: 22 } },
  { what: "prefill T = 2048", before: "858 µs", case: "prefill/B1/T2048", limit: { microseconds: 580 } },
  { what: "prefill B = 8, T = 512", before: "838 µs", case: "prefill/B8/T512", limit: { microseconds: 1130 } },
  { what: "conv prefill T = 2048", before: "48 %", case: "conv/B1/T2048", limit: { share: 82 } },
  { what: "conv update B = 64", before: "59 %", case: "conv/B64/T1", limit: { share: 80 } },
  { what: "norm T = 2048", before: "67 %", case: "norm/T2048", limit: { share: 89 } },
  { what: "projection of one row, f32", before: "63 %", case: "project/f32/R1", limit: { share: 90 } },
  { what: "projection of one row, bf16", before: "37 %", case: "project/bf16/R1", limit: { share: 85 } },
  { what: "projection of one row, packed 4 bits", before: "", case: "project/q4/R1", limit: { share: 85 } },
];

/** Rows of a table: what, before, target, now, and whether it is met. */
export function targets(timed: ReadonlyMap<string, Timed>): string[][] {
  const rows = list.map(({ what, before, case: name, limit }) => {
    const t = timed.get(name);
    const wanted = "share" in limit ? `≥ ${limit.share} % of the copy` : `≤ ${limit.microseconds} µs`;
    if (t === undefined) return [what, before, wanted, "", "not run"];
    const share = (100 * t.copy) / t.microseconds;
    const met = "share" in limit ? share >= limit.share : t.microseconds <= limit.microseconds;
    const now = "share" in limit ? `${share.toFixed(1)} %` : `${t.microseconds.toFixed(2)} µs`;
    return [what, before, wanted, now, met ? "met" : "missed"];
  });
  const batches = [...timed.keys()].filter((name) => name.startsWith("step/")).map((name) => name.slice(5));
  const slower = batches.filter((b) => (timed.get(`step/${b}`)?.microseconds ?? 0) > (timed.get(`chain/${b}`)?.microseconds ?? Infinity));
  const now = slower.length === 0 ? `faster at ${batches.join(", ")}` : `slower at ${slower.join(", ")}`;
  return [...rows, ["fused step against its parts", "slower at B1", "never slower", now, slower.length === 0 ? "met" : "missed"]];
}
