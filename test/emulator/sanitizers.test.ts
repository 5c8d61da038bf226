/** AddressSanitizer and UndefinedBehaviorSanitizer builds, in the runner: faults that they find and that the checked build cannot find. */
import { expect, setDefaultTimeout } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildRunner } from "./build.ts";
import { openSource } from "./harness.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const source = `#include <metal_stdlib>
using namespace metal;
constant int SCALE [[function_constant(0)]];

kernel void good(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], threadgroup float* tile [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float sums[2];
  tile[i] = in[i] * float(SCALE);
  float s = simd_sum(tile[i]);
  if (i % 32 == 0) sums[i / 32] = s;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(s);
  simdgroup_multiply_accumulate(m, m, m, m);
  float local[4] = {0.0f, 1.0f, 2.0f, 3.0f};
  out[i] = sums[0] + sums[1] + local[i % 4] + m.thread_elements()[0] * 0.0f;
}

kernel void beyond(device float* out [[buffer(1)]], uint i [[thread_index_in_threadgroup]]) {
  out[i + 1] = 1.0f;  // fault
}

kernel void stack(device float* out [[buffer(1)]], device const int* index [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  float local[8];
  for (int k = 0; k < 8; ++k) local[k] = out[k];
  thread float* p = local + index[i];
  out[i] = p[7];  // fault
}

kernel void overflow(device int* out [[buffer(1)]], device const int* in [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] = in[i] + 2147483647;  // fault
}

kernel void wide_shift(device int* out [[buffer(1)]], device const int* in [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] = 1 << (in[i] + 32);  // fault
}

kernel void counter(device int* out [[buffer(1)]], device const int* in [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  short n = in[i] * 40000;  // fault
  out[i] = n;
}

kernel void conversion(device int* out [[buffer(1)]], device const float* in [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] = int(in[i] * 1e20f);  // fault
}
`;
/** The line marked in a kernel. */
function faultLine(kernel: string): number {
  const lines = source.split("\n");
  const start = lines.findIndex((line) => line.includes(`kernel void ${kernel}(`));
  return lines.findIndex((line, n) => n > start && line.includes("// fault")) + 1;
}

const constants = [{ name: "SCALE", type: "int", value: 2 }] as const;
const ones = (): Int32Array => new Int32Array(64).fill(1);
const run = { grid: [64], threads: [64] } as const;
/** The kernel without a fault, on its buffers. */
const good = (input: Float32Array, out: Float32Array) =>
  ({ kernel: "good", constants, buffers: { 0: input, 1: out }, threadgroupBytes: [256], ...run }) as const;

for (const sanitizer of ["address", "undefined"] as const) {
  describe(sanitizer, async () => {
    const library = await openSource("sanitized.metal", source, { sanitizer });
    for (const order of ["forward", "reverse", "random:5"] as const) {
      test(`a good kernel runs, ${order}`, () => {
        const input = Float32Array.from({ length: 64 }, (_, i) => i);
        const out = new Float32Array(64);
        const { error } = library.run({ ...good(input, out), order });
        expect(error).toBe("");
        expect(Array.from(out)).toEqual(Array.from({ length: 64 }, (_, i) => 4032 + (i % 4)));
      });
    }
    const cases: readonly [string, RegExp, Record<number, Int32Array | Float32Array>][] =
      sanitizer === "address"
        ? [
            ["beyond", /heap-buffer-overflow[\s\S]*sanitized\.metal:LINE/, { 1: new Float32Array(64) }],
            [
              "stack",
              /stack-buffer-(over|under)flow[\s\S]*sanitized\.metal:LINE/,
              { 0: ones(), 1: new Float32Array(64) },
            ],
          ]
        : [
            ["overflow", /sanitized\.metal:LINE:\d+: runtime error: signed integer overflow/, { 0: ones(), 1: ones() }],
            ["wide_shift", /sanitized\.metal:LINE:\d+: runtime error: shift exponent 33/, { 0: ones(), 1: ones() }],
            ["counter", /sanitized\.metal:LINE:\d+: runtime error: implicit conversion/, { 0: ones(), 1: ones() }],
            [
              "conversion",
              /sanitized\.metal:LINE:\d+: runtime error: .*outside the range/,
              { 0: new Float32Array(64).fill(1), 1: ones() },
            ],
          ];
    for (const [kernel, says, buffers] of cases) {
      test(kernel, () => {
        const { error, status } = library.run({ kernel, buffers, ...run });
        expect(error).toMatch(new RegExp(says.source.replace("LINE", String(faultLine(kernel)))));
        expect(status).not.toBe(0);
      });
    }
  });
}

test("a recorded dispatch runs again with the same result", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-record-"));
  const library = await openSource("sanitized.metal", source);
  const input = Float32Array.from({ length: 64 }, (_, i) => i);
  const out = new Float32Array(64);
  process.env["GATED_DELTA_EMULATOR_RECORD"] = folder;
  const { error } = library.run({ ...good(input, out), order: "random:3" });
  delete process.env["GATED_DELTA_EMULATOR_RECORD"];
  expect(error).toBe("");
  const records = readdirSync(folder);
  expect(records).toEqual(["000000-good.emurec"]);
  const runner = await buildRunner("none");
  const replay = spawnSync(runner, [library.path, join(folder, "000000-good.emurec"), join(folder, "out")], {
    encoding: "utf8",
  });
  expect(replay.stderr).toBe("");
  // Header, then index, length and contents of each buffer.
  const file = readFileSync(join(folder, "out"));
  expect(Array.from(new Float32Array(new Uint8Array(file.subarray(12 + 12 + 256 + 12)).buffer))).toEqual(
    Array.from(out),
  );
  writeFileSync(join(folder, "000000-good.emurec"), readFileSync(join(folder, "000000-good.emurec")).subarray(0, 100));
  expect(spawnSync(runner, [library.path, join(folder, "000000-good.emurec"), "-"], { encoding: "utf8" }).status).toBe(
    2,
  );
  rmSync(folder, { recursive: true });
});
