/** Targets of the kernels' times on an H200, against their times before (at 694227e, or 964c3ae where it says so) and in a run. */
import type { Timed } from "./report.ts";

type Target = {
  readonly what: string;
  readonly before: string;
  readonly case: string;
  /** At most this many microseconds, or at least this share, in percent, of the speed of the copy or of another case. */
  readonly limit: { readonly microseconds: number } | { readonly share: number; readonly of?: string };
};

const list: readonly Target[] = [
  { what: "decode B = 64", before: "78 %", case: "decode/B64", limit: { share: 92 } },
  { what: "decode B = 8", before: "83 %", case: "decode/B8", limit: { share: 86 } },
  { what: "decode B = 1 (llama.cpp 3.39 µs)", before: "3.92 µs", case: "decode/B1", limit: { microseconds: 3.46 } },
  { what: "decode, bf16 states, B = 64", before: "60.9 µs", case: "decode/bf16/B64", limit: { microseconds: 45 } },
  { what: "fused step B = 1", before: "14.2 µs", case: "step/B1", limit: { microseconds: 6.7 } },
  { what: "fused step B = 8", before: "18.2 µs", case: "step/B8", limit: { microseconds: 14.2 } },
  { what: "fused step B = 64", before: "85.1 µs", case: "step/B64", limit: { microseconds: 78 } },
  { what: "prefill T = 64", before: "25.4 µs", case: "prefill/B1/T64", limit: { microseconds: 22 } },
  { what: "prefill T = 2048", before: "858 µs", case: "prefill/B1/T2048", limit: { microseconds: 610 } },
  { what: "prefill B = 4, T = 512 (at 964c3ae)", before: "488 µs", case: "prefill/B4/T512", limit: { microseconds: 335 } },
  { what: "prefill B = 8, T = 512", before: "838 µs", case: "prefill/B8/T512", limit: { microseconds: 660 } },
  { what: "conv prefill T = 2048", before: "48 %", case: "conv/B1/T2048", limit: { share: 82 } },
  { what: "conv update B = 64", before: "59 %", case: "conv/B64/T1", limit: { share: 80 } },
  { what: "norm T = 2048", before: "67 %", case: "norm/T2048", limit: { share: 89 } },
  { what: "projection of one row, f32", before: "63 %", case: "project/f32/R1", limit: { share: 90 } },
  { what: "projection of one row, bf16", before: "37 %", case: "project/bf16/R1", limit: { share: 85 } },
  { what: "one row of 4 bits, 3584 → 1024 (torch int4)", before: "5.08 µs", case: "project/q4/R1/3584-1024", limit: { microseconds: 4.86 } },
  { what: "one row of 4 bits, 9216 → 2560 (torch int4)", before: "17.2 µs", case: "project/q4/R1/9216-2560", limit: { microseconds: 10.7 } },
  { what: "one row of 4 bits, 12288 → 4096 (torch int4)", before: "22.9 µs", case: "project/q4/R1/12288-4096", limit: { microseconds: 17.3 } },
  { what: "512 rows of 4 bits, 2048 → 12288 (at 964c3ae)", before: "1062 µs", case: "project/q4/R512", limit: { microseconds: 870 } },
  { what: "attention of one row, 8/2 heads, 4096 keys (at 964c3ae)", before: "80 µs", case: "attention/8-2/B1/T1/past4096", limit: { microseconds: 22 } },
  { what: "… 32768 keys", before: "98 µs", case: "attention/8-2/B1/T1/past32768", limit: { microseconds: 45 } },
  { what: "… 32/8 heads, 32768 keys", before: "195 µs", case: "attention/32-8/B1/T1/past32768", limit: { microseconds: 130 } },
  { what: "attention of 2048 rows, 16/4 heads", before: "3454 µs", case: "attention/16-4/B1/T2048/past0", limit: { microseconds: 2600 } },
  { what: "projection of one row, packed 4 bits", before: "", case: "project/q4/R1", limit: { share: 85 } },
  ...(["q4_k", "q8_0"] as const).map((format) => ({
    what: `projection of one row, ${format}`,
    before: "",
    case: `ggml/${format}`,
    limit: { share: 87, of: `ggml/${format}/affine${format === "q4_k" ? 4 : 8}` },
  })),
  { what: "experts, one token", before: "", case: "experts/q4/T1", limit: { share: 90, of: "experts/q4/T1/linear" } },
  { what: "experts, 512 tokens", before: "", case: "experts/q4/T512", limit: { share: 70, of: "experts/q4/T512/linear" } },
];

/** Rows of a table: the case, before, target, now, and whether the target is met. */
export function targets(timed: ReadonlyMap<string, Timed>): string[][] {
  const rows = list.map(({ what, before, case: name, limit }) => {
    const t = timed.get(name);
    const wanted = "share" in limit ? `≥ ${limit.share} % of ${limit.of === undefined ? "the copy" : `\`${limit.of}\``}` : `≤ ${limit.microseconds} µs`;
    if (t === undefined) return [what, before, wanted, "", "not run"];
    const reference = "share" in limit && limit.of !== undefined ? (timed.get(limit.of)?.microseconds ?? NaN) : t.copy;
    const share = (100 * reference) / t.microseconds;
    const met = "share" in limit ? share >= limit.share : t.microseconds <= limit.microseconds;
    const now = "share" in limit ? `${share.toFixed(1)} %` : `${t.microseconds.toFixed(2)} µs`;
    return [what, before, wanted, now, met ? "met" : "missed"];
  });
  const batches = [...timed.keys()].filter((name) => name.startsWith("step/")).map((name) => name.slice(5));
  const slower = batches.filter((b) => (timed.get(`step/${b}`)?.microseconds ?? 0) > (timed.get(`chain/${b}`)?.microseconds ?? Infinity));
  const now = slower.length === 0 ? `faster at ${batches.join(", ")}` : `slower at ${slower.join(", ")}`;
  return [...rows, ["fused step against its parts", "slower at B1", "never slower", now, slower.length === 0 ? "met" : "missed"]];
}
