/** Simdgroup and quadgroup functions, in every lane order. */
import { expect, setDefaultTimeout } from "bun:test";
import { openSource } from "./harness.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const orders = ["forward", "reverse", "random:1", "random:99"] as const;
const lanes = Array.from({ length: 32 }, (_, i) => i);
const input = Float32Array.from(lanes, (i) => ((i * 37) % 19) - 7);
const numbers = Array.from(input);
const at = (i: number): number => numbers[i] ?? NaN;
const quad = (i: number): number => i & ~3;

/** An expression of float x and uint lane, and the result in lane i. */
const functions: readonly [string, (i: number) => number][] = [
  ["simd_shuffle(x, ushort(31 - lane))", (i) => at(31 - i)],
  ["simd_shuffle_xor(x, ushort(5))", (i) => at(i ^ 5)],
  ["simd_shuffle_up(x, ushort(3))", (i) => (i >= 3 ? at(i - 3) : at(i))],
  ["simd_shuffle_down(x, ushort(3))", (i) => (i + 3 < 32 ? at(i + 3) : at(i))],
  ["simd_shuffle_rotate_up(x, ushort(3))", (i) => at((i - 3) & 31)],
  ["simd_shuffle_rotate_down(x, ushort(3))", (i) => at((i + 3) & 31)],
  ["simd_broadcast(x, ushort(9))", () => at(9)],
  ["simd_broadcast_first(x)", () => at(0)],
  ["simd_shuffle_and_fill_up(x, -x, ushort(2))", (i) => (i < 2 ? -at(30 + i) : at(i - 2))],
  ["simd_shuffle_and_fill_down(x, -x, ushort(2))", (i) => (i >= 30 ? -at(i - 30) : at(i + 2))],
  [
    "simd_shuffle_and_fill_up(x, -x, ushort(2), ushort(8))",
    (i) => (i % 8 < 2 ? -at((i & ~7) + 6 + (i % 8)) : at(i - 2)),
  ],
  [
    "simd_shuffle_and_fill_down(x, -x, ushort(2), ushort(8))",
    (i) => (i % 8 >= 6 ? -at((i & ~7) + (i % 8) - 6) : at(i + 2)),
  ],
  ["simd_sum(x)", () => numbers.reduce((a, b) => a + b, 0)],
  ["simd_product(float(1 + (lane & 1)))", () => 65536],
  ["simd_min(x)", () => Math.min(...numbers)],
  ["simd_max(x)", () => Math.max(...numbers)],
  ["float(simd_and(int(lane) | 96))", () => 96],
  ["float(simd_or(lane))", () => 31],
  ["float(simd_xor(ushort(lane == 3 ? 5 : 0)))", () => 5],
  ["simd_prefix_inclusive_sum(x)", (i) => numbers.slice(0, i + 1).reduce((a, b) => a + b, 0)],
  ["simd_prefix_exclusive_sum(x)", (i) => numbers.slice(0, i).reduce((a, b) => a + b, 0)],
  ["simd_prefix_inclusive_product(lane % 8 == 0 ? 2.0f : 1.0f)", (i) => 2 ** (Math.floor(i / 8) + 1)],
  ["simd_prefix_exclusive_product(lane % 8 == 0 ? 2.0f : 1.0f)", (i) => 2 ** Math.floor((i + 7) / 8)],
  [
    "float(ulong(simd_ballot(x > 0.0f)) & 0xffff)",
    () => numbers.slice(0, 16).reduce((bits, v, i) => (v > 0 ? bits | (1 << i) : bits), 0),
  ],
  [
    "float(simd_all(x > -100.0f)) + 2.0f * float(simd_any(x > 100.0f)) + 4.0f * float(simd_is_first())",
    (i) => 1 + (i === 0 ? 4 : 0),
  ],
  ["float(simd_active_threads_mask().all())", () => 1],
  ["simd_sum(float2(x, 1.0f)).y + simd_shuffle_xor(half4(half(x)), ushort(1)).w", (i) => 32 + at(i ^ 1)],
  ["float(simd_sum(bfloat(1.0f))) + float(simd_max(char(lane)))", () => 63],
  ["quad_sum(x)", (i) => at(quad(i)) + at(quad(i) + 1) + at(quad(i) + 2) + at(quad(i) + 3)],
  ["quad_shuffle(x, ushort(3 - lane % 4))", (i) => at(quad(i) + 3 - (i % 4))],
  ["quad_shuffle_xor(x, ushort(1))", (i) => at(i ^ 1)],
  ["quad_broadcast(x, ushort(2))", (i) => at(quad(i) + 2)],
  ["quad_shuffle_down(x, ushort(1))", (i) => (i % 4 < 3 ? at(i + 1) : at(i))],
  ["quad_shuffle_rotate_up(x, ushort(1))", (i) => at(quad(i) + ((i + 3) % 4))],
  ["quad_prefix_exclusive_sum(x)", (i) => numbers.slice(quad(i), i).reduce((a, b) => a + b, 0)],
  ["float(uint(quad_ballot(lane % 2 == 0)))", () => 5],
  ["float(quad_max(long(lane)))", (i) => quad(i) + 3],
];

const library = openSource(
  "simdgroup.metal",
  `#include <metal_stdlib>
using namespace metal;
kernel void functions(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], uint lane [[thread_index_in_simdgroup]]) {
  float x = in[lane];
${functions.map(([e], n) => `  out[${n * 32} + lane] = ${e};`).join("\n")}
}
`,
);

describe("functions", async () => {
  const lib = await library;
  for (const order of orders) {
    const out = new Float32Array(functions.length * 32);
    const { error } = lib.run({ kernel: "functions", buffers: { 0: input, 1: out }, grid: [32], threads: [32], order });
    test(`run ${order}`, () => expect(error).toBe(""));
    functions.forEach(([expression, expected], n) => {
      test(`${expression} ${order}`, () => {
        expect(Array.from(out.subarray(n * 32, n * 32 + 32))).toEqual(lanes.map((i) => Math.fround(expected(i))));
      });
    });
  }
});
