/** Simdgroup and quadgroup functions, matrices, barriers, atomics and builtins, in every lane order. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { openSource, type Dispatch } from "./harness.ts";

// A first run compiles the runtime, which a busy machine may take its time for.
setDefaultTimeout(300_000);

const orders = ["forward", "reverse", "random:1", "random:99"] as const;
const lanes = Array.from({ length: 32 }, (_, i) => i);
const input = Float32Array.from(lanes, (i) => ((i * 37) % 19) - 7);
const numbers = Array.from(input);
const at = (i: number): number => numbers[i] ?? NaN;
const quad = (i: number): number => i & ~3;

/** name, expression on float x and uint lane, what lane i gets. */
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
  ["simd_shuffle_and_fill_up(x, -x, ushort(2), ushort(8))", (i) => (i % 8 < 2 ? -at((i & ~7) + 6 + (i % 8)) : at(i - 2))],
  ["simd_shuffle_and_fill_down(x, -x, ushort(2), ushort(8))", (i) => (i % 8 >= 6 ? -at((i & ~7) + (i % 8) - 6) : at(i + 2))],
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
  ["float(ulong(simd_ballot(x > 0.0f)) & 0xffff)", () => numbers.slice(0, 16).reduce((bits, v, i) => (v > 0 ? bits | (1 << i) : bits), 0)],
  ["float(simd_all(x > -100.0f)) + 2.0f * float(simd_any(x > 100.0f)) + 4.0f * float(simd_is_first())", (i) => 1 + (i === 0 ? 4 : 0)],
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

const library = openSource("simdgroup.metal", `#include <metal_stdlib>
using namespace metal;
kernel void functions(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], uint lane [[thread_index_in_simdgroup]]) {
  float x = in[lane];
${functions.map(([e], n) => `  out[${n * 32} + lane] = ${e};`).join("\n")}
}

kernel void partial(device float* out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {
  if (lane % 3 == 0) return;
  out[lane] = simd_sum(1.0f) + 100.0f * simd_broadcast_first(float(lane)) + (simd_active_threads_mask().all() ? 1000.0f : 0.0f);
}

// Each simdgroup's sum, by way of a shuffle tree and threadgroup memory; a static array and an argument.
kernel void group_sum(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], threadgroup float* parts [[threadgroup(0)]],
                      uint i [[thread_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
                      ushort group [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                      uint position [[thread_position_in_grid]]) {
  threadgroup float total;
  float x = in[position];
  for (ushort delta = 16; delta > 0; delta /= 2) x += simd_shuffle_down(x, delta);
  if (lane == 0) parts[group] = x;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) {
    total = 0.0f;
    for (ushort g = 0; g < groups; ++g) total += parts[g];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[position] = total;
}

// simdgroup_barrier orders a simdgroup's own threadgroup memory.
kernel void simdgroup_tile(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[128];
  for (uint round = 0; round < 3; ++round) {
    tile[i] = float(i + round);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    float x = tile[i - lane + 31 - lane];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    out[i] = x;
  }
}

kernel void counted(device atomic_uint* count [[buffer(0)]], device atomic_int* extremes [[buffer(1)]], device atomic_float* sum [[buffer(2)]],
                    device uint* order [[buffer(3)]], uint i [[thread_position_in_grid]]) {
  threadgroup atomic_uint local;
  uint n = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
  order[n] = i;
  atomic_fetch_max_explicit(&extremes[0], int(i), memory_order_relaxed);
  atomic_fetch_min_explicit(&extremes[1], -int(i), memory_order_relaxed);
  atomic_fetch_add_explicit(sum, 0.5f, memory_order_relaxed);
  atomic_store_explicit(&local, 0u, memory_order_relaxed);
  int expected = 12345;
  if (atomic_compare_exchange_weak_explicit(&extremes[2], &expected, 1, memory_order_relaxed, memory_order_relaxed)) atomic_exchange_explicit(&extremes[3], int(i), memory_order_relaxed);
}

// The last threadgroup to arrive reads what the others wrote: a fence and an atomic on both sides.
kernel void last_arrives(device atomic_uint* count [[buffer(0)]], coherent(device) device uint* parts [[buffer(1)]], device uint* out [[buffer(2)]],
                         uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup uint last;
  parts[group * 32 + i] = group;
  threadgroup_barrier(mem_flags::mem_device);
  if (i == 0) {
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    last = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed) == groups - 1 ? 1 : 0;
    if (last) atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  if (last) {
    uint sum = 0;
    for (uint g = 0; g < groups; ++g) sum += parts[g * 32 + i];
    out[i] = sum;
  }
}

// The same without the fences.
kernel void last_arrives_unfenced(device atomic_uint* count [[buffer(0)]], device uint* parts [[buffer(1)]], device uint* out [[buffer(2)]],
                                  uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup uint last;
  parts[group * 32 + i] = group;
  threadgroup_barrier(mem_flags::mem_device);
  if (i == 0) last = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed) == groups - 1 ? 1 : 0;
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  if (last) out[i] = parts[i] + parts[(groups - 1) * 32 + i];
}

kernel void builtins(device uint* out [[buffer(0)]], uint3 position [[thread_position_in_grid]], uint3 grid [[threads_per_grid]],
                     ushort3 local [[thread_position_in_threadgroup]], ushort3 size [[threads_per_threadgroup]],
                     ushort3 nominal [[dispatch_threads_per_threadgroup]], uint3 group [[threadgroup_position_in_grid]],
                     uint3 groups [[threadgroups_per_grid]], ushort index [[thread_index_in_threadgroup]],
                     ushort lane [[thread_index_in_simdgroup]], ushort simdgroup [[simdgroup_index_in_threadgroup]],
                     ushort simdgroups [[simdgroups_per_threadgroup]], ushort width [[threads_per_simdgroup]],
                     ushort quad [[quadgroup_index_in_threadgroup]], ushort quad_lane [[thread_index_in_quadgroup]]) {
  device uint* row = out + ((position.z * grid.y + position.y) * grid.x + position.x) * 16;
  row[0] = position.x; row[1] = position.y; row[2] = position.z; row[3] = local.x; row[4] = local.y; row[5] = local.z;
  row[6] = size.x * 10000 + size.y * 100 + size.z; row[7] = nominal.x * 10000 + nominal.y * 100 + nominal.z;
  row[8] = (group.z * groups.y + group.y) * groups.x + group.x; row[9] = index; row[10] = lane; row[11] = simdgroup;
  row[12] = simdgroups; row[13] = width; row[14] = quad; row[15] = quad_lane;
}

template <typename A, typename C> kernel void product(device const A* a [[buffer(0)]], device const A* b [[buffer(1)]], device C* c [[buffer(2)]],
                                                      device float* elements [[buffer(3)]], ushort lane [[thread_index_in_simdgroup]]) {
  simdgroup_matrix<A, 8, 8> ma, mb;
  simdgroup_matrix<C, 8, 8> mc;
  simdgroup_load(ma, a, 10);
  simdgroup_load(mb, b, 8, ulong2(0, 0), true);
  simdgroup_load(mc, c);
  simdgroup_multiply_accumulate(mc, ma, mb, mc);
  simdgroup_store(mc, c);
  elements[2 * lane] = float(ma.thread_elements()[0]);
  elements[2 * lane + 1] = float(ma.thread_elements()[1]);
}
template [[host_name("product_float")]] kernel void product<float, float>(device const float*, device const float*, device float*, device float*, ushort);
template [[host_name("product_half")]] [[kernel]] decltype(product<half, half>) product<half, half>;
typedef decltype(product<half, float>) product_t;
template [[host_name("product_mixed")]] kernel product_t product<half, float>;
template [[host_name("product_bfloat")]] [[kernel]] decltype(product<bfloat, float>) product<bfloat, float>;

kernel void diagonal(device float* out [[buffer(0)]]) {
  simdgroup_float8x8 d = simdgroup_float8x8(3.0f), f = make_filled_simdgroup_matrix<float, 8, 8>(2.0f);
  simdgroup_store(d, out, 16, ulong2(0, 0));
  simdgroup_store(f * d, out, 16, ulong2(8, 8), true);
}
`);

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

const run = async (dispatch: Dispatch): Promise<string> => (await library).run(dispatch).error;

describe("groups", () => {
  for (const order of orders) {
    test(`lanes that have returned are not active, ${order}`, async () => {
      const out = new Float32Array(32);
      expect(await run({ kernel: "partial", buffers: { 0: out }, grid: [32], threads: [32], order })).toBe("");
      expect(Array.from(out)).toEqual(lanes.map((i) => (i % 3 === 0 ? 0 : 21 + 100)));
    });

    test(`a sum over threadgroups of 160 with a ragged last one, ${order}`, async () => {
      const data = Float32Array.from({ length: 416 }, (_, i) => i % 13);
      const out = new Float32Array(416);
      expect(await run({ kernel: "group_sum", buffers: { 0: data, 1: out }, threadgroupBytes: [32], grid: [416], threads: [160], order })).toBe("");
      const sums = [0, 160, 320].map((first) => data.subarray(first, Math.min(first + 160, 416)).reduce((a, b) => a + b, 0));
      expect(Array.from(out)).toEqual(Array.from({ length: 416 }, (_, i) => sums[Math.floor(i / 160)] ?? NaN));
    });

    test(`simdgroup_barrier orders threadgroup memory, ${order}`, async () => {
      const out = new Float32Array(128);
      expect(await run({ kernel: "simdgroup_tile", buffers: { 0: out }, grid: [128], threads: [128], order })).toBe("");
      expect(Array.from(out)).toEqual(Array.from({ length: 128 }, (_, i) => (i & ~31) + 31 - (i & 31) + 2));
    });

    test(`atomics, ${order}`, async () => {
      const count = new Uint32Array(1), extremes = new Int32Array([-5, 5, 12345, 0]), sum = new Float32Array(1), seen = new Uint32Array(256);
      expect(await run({ kernel: "counted", buffers: { 0: count, 1: extremes, 2: sum, 3: seen }, grid: [256], threads: [64], order })).toBe("");
      expect(count[0]).toBe(256);
      expect(Array.from(extremes.subarray(0, 3))).toEqual([255, -255, 1]);
      expect(sum[0]).toBe(128);
      expect(Array.from(seen).sort((a, b) => a - b)).toEqual(Array.from({ length: 256 }, (_, i) => i));
      if (order === "forward") expect(seen[0]).toBe(0);
      if (order === "reverse") expect(seen[0]).toBe(255);
    });

    test(`the last threadgroup sees the others' work through fences, ${order}`, async () => {
      const out = new Uint32Array(32);
      const buffers = { 0: new Uint32Array(1), 1: new Uint32Array(160), 2: out };
      expect(await run({ kernel: "last_arrives", buffers, grid: [160], threads: [32], order })).toBe("");
      expect(Array.from(out)).toEqual(lanes.map(() => 10));
      const unfenced = await run({ kernel: "last_arrives_unfenced", buffers: { 0: new Uint32Array(1), 1: new Uint32Array(160), 2: out }, grid: [160], threads: [32], order });
      expect(unfenced).toMatch(/data race: read of buffer 1 "parts".*another threadgroup/);
    });

    test(`positions, ${order}`, async () => {
      const [gx, gy, gz] = [7, 3, 2];
      const out = new Uint32Array(gx * gy * gz * 16);
      expect(await run({ kernel: "builtins", buffers: { 0: out }, grid: [gx, gy, gz], threads: [4, 2, 2], order })).toBe("");
      for (let z = 0; z < gz; z += 1) for (let y = 0; y < gy; y += 1) for (let x = 0; x < gx; x += 1) {
        const size = [x < 4 ? 4 : 3, y < 2 ? 2 : 1, 2] as const;
        const local = [x % 4, y % 2, z] as const;
        const index = local[0] + size[0] * (local[1] + size[1] * local[2]);
        const row = ((z * gy + y) * gx + x) * 16;
        expect(Array.from(out.subarray(row, row + 16))).toEqual([
          x, y, z, ...local, size[0] * 10000 + size[1] * 100 + size[2], 40202, Math.floor(y / 2) * 2 + Math.floor(x / 4), index,
          index % 32, Math.floor(index / 32), 1, 32, Math.floor(index / 4), index % 4,
        ]);
      }
    });
  }
});

function halfBits(x: number): number {
  const bits = new Uint32Array(new Float32Array([x]).buffer)[0] ?? 0;
  return x === 0 ? 0 : ((bits >>> 16) & 0x8000) | ((((bits >>> 23) & 255) - 112) << 10) | ((bits >>> 13) & 1023);
}
function halfValue(h: number): number {
  return h & 0x7fff ? (h & 0x8000 ? -1 : 1) * 2 ** (((h >> 10) & 31) - 15) * (1 + (h & 1023) / 1024) : 0;
}

describe("matrices", () => {
  // Small integers: every sum is exact in every type.
  const a = Array.from({ length: 80 }, (_, i) => (i * 7) % 5 - 2), b = Array.from({ length: 64 }, (_, i) => (i * 3) % 7 - 3);
  const c = Array.from({ length: 64 }, (_, i) => i % 9);
  const expected = Array.from({ length: 64 }, (_, i) => {
    let sum = c[i] ?? 0;
    for (let k = 0; k < 8; k += 1) sum += (a[(i >> 3) * 10 + k] ?? 0) * (b[(i & 7) * 8 + k] ?? 0);
    return sum;
  });
  const halves = (values: readonly number[]): Uint16Array => Uint16Array.from(values, halfBits);
  const brains = (values: readonly number[]): Uint16Array => Uint16Array.from(values, (v) => (new Uint32Array(new Float32Array([v]).buffer)[0] ?? 0) >>> 16);
  for (const order of orders) {
    for (const kind of ["float", "half", "mixed", "bfloat"] as const) {
      test(`${kind} product, ${order}`, async () => {
        const operand = kind === "float" ? (v: readonly number[]) => Float32Array.from(v) : kind === "bfloat" ? brains : halves;
        const out = kind === "half" ? halves(c) : Float32Array.from(c);
        const elements = new Float32Array(64);
        expect(await run({ kernel: `product_${kind}`, buffers: { 0: operand(a), 1: operand(b), 2: out, 3: elements }, grid: [32], threads: [32], order })).toBe("");
        expect(Array.from(out, (v) => (kind === "half" ? halfValue(v) : v))).toEqual(expected);
        // The lane map: two neighbours of a row in each lane.
        lanes.forEach((lane) => {
          const row = 4 * ((lane >> 4) & 1) + ((lane >> 1) & 3), column = 4 * ((lane >> 3) & 1) + 2 * (lane & 1);
          expect([elements[2 * lane], elements[2 * lane + 1]]).toEqual([a[row * 10 + column] ?? 0, a[row * 10 + column + 1] ?? 0].map((v) => v + 0));
        });
      });
    }
  }

  test("diagonal, filled, origin and transposition", async () => {
    const out = new Float32Array(256);
    expect(await run({ kernel: "diagonal", buffers: { 0: out }, grid: [32], threads: [32] })).toBe("");
    for (let r = 0; r < 16; r += 1) for (let k = 0; k < 16; k += 1) {
      expect(out[r * 16 + k]).toBe(r < 8 && k < 8 ? (r === k ? 3 : 0) : r >= 8 && k >= 8 ? 6 : 0);
    }
  });
});
