/** What a kernel does wrong comes back as a message that names the .metal file and line, and nothing else breaks. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { openSource, type Dispatch } from "./harness.ts";

// A first run compiles the runtime, which a busy machine may take its time for.
setDefaultTimeout(300_000);

const source = `#include <metal_stdlib>
using namespace metal;

kernel void past_the_end(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1.0f;  // fault
}

kernel void before_the_start(device const float* in [[buffer(1)]], device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = in[int(i) - 1];  // fault
}

template <typename T> inline T load_at(device const T* p, uint i) {
  return p[i];  // fault in inlined
}
kernel void inlined(device const half* in [[buffer(1)]], device half* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = load_at(in, i + 100);
}

kernel void writes_read_only(device float* in [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  in[i] = 2.0f;  // fault
}

kernel void misaligned(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  *(device float4*)(out + 1) = float4(float(i));  // fault
}

kernel void missing_barrier(device float* out [[buffer(0)]], device const float* in [[buffer(1)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[i] = in[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  tile[63 - i] = tile[i] + 1.0f;  // fault
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = tile[i];
}

kernel void wrong_flags(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[i] = float(i);
  threadgroup_barrier(mem_flags::mem_device);
  out[i] = tile[63 - i];  // fault
}

kernel void lockstep(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float first[1];
  if (i == 0) first[0] = 3.0f;
  float sum = simd_sum(1.0f);
  out[i] = first[0] + sum;  // fault: a reduction orders no memory
}

kernel void device_race(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] = 1.0f;  // fault: thread 0 has been here
  out[(i + 1) % 64] += 1.0f;
}

kernel void groups_race(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] += 1.0f;  // fault
}

kernel void divergent_sites(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i < 32) threadgroup_barrier(mem_flags::mem_device);
  else threadgroup_barrier(mem_flags::mem_device);  // fault
  out[i] = 1.0f;
}

kernel void barrier_after_return(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i >= 40) return;
  threadgroup_barrier(mem_flags::mem_device);  // fault
  out[i] = 1.0f;
}

kernel void unequal_trips(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  for (uint k = 0; k < 2 + i / 32; ++k) threadgroup_barrier(mem_flags::mem_device);  // fault
  out[i] = 1.0f;
}

kernel void divergent_sum(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  float x = 0.0f;
  if (i % 2 == 0) x = simd_sum(1.0f);
  else x = simd_max(2.0f);  // fault
  out[i] = x;
}

kernel void barrier_in_one_lane(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i == 5) simdgroup_barrier(mem_flags::mem_none);  // fault
  threadgroup_barrier(mem_flags::mem_none);
  out[i] = 1.0f;
}

kernel void uneven_delta(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] = simd_shuffle_down(float(i), ushort(i % 2));  // fault
}

kernel void inactive_lane(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i == 7) return;
  out[i] = simd_shuffle(float(i), ushort(7));  // fault
}

kernel void matrix_without_lane(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i == 31) return;
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_store(m, out, 8);  // fault
}

kernel void matrix_out_of_bounds(device float* out [[buffer(0)]]) {
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_store(m, out, 16);  // fault: rows 16 apart need 7 * 16 + 8 elements
}

kernel void never_written(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  if (i < 32) tile[i] = 1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = tile[i];  // fault
}

kernel void past_the_tile(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[32];
  threadgroup float other[64];
  other[i] = 0.0f;
  (tile + i)[0] = 1.0f;  // fault
  out[i] = tile[i] + other[i];
}

kernel void past_the_argument(device float* out [[buffer(0)]], threadgroup half* tile [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) {
  tile[i] = 1.0h;  // fault
  out[i] = float(tile[i]);
}

kernel void private_array(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float local[4] = {0.0f, 1.0f, 2.0f, 3.0f};
  out[i] = local[i];  // fault
}

kernel void component(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float4 v = float4(1.0f);
  out[i] = v[i];  // fault
}

kernel void zero_divisor(device int* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 7 / int(i);  // fault
}

kernel void zero_vector_divisor(device int4* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = int4(7) % int4(1, 2, int(i), 3);  // fault
}

int endless(device int* p, int n) { return n == -1 ? 0 : p[n & 15] + endless(p, n + 1) * 2; }  // fault in recursion
kernel void recursion(device int* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = endless(out, int(i));
}

kernel void waits_for_another_group(device atomic_uint* flag [[buffer(0)]], uint group [[threadgroup_position_in_grid]]) {
  if (group == 0) {
    while (atomic_load_explicit(flag, memory_order_relaxed) == 0) {}  // fault
  } else {
    atomic_store_explicit(flag, 1u, memory_order_relaxed);
  }
}

constant bool HAS_BIAS [[function_constant(0)]];
kernel void null_pointer(device float* out [[buffer(0)]], device float* bias [[buffer(1), function_constant(HAS_BIAS)]], uint i [[thread_position_in_grid]]) {
  out[i] = bias[i];  // fault
}
`;

type Case = { kernel: string; says: RegExp } & Partial<Dispatch>;

/** The line marked "// fault" in the kernel, or the one marked for it elsewhere. */
function faultLine(kernel: string): number {
  const lines = source.split("\n");
  const marked = lines.findIndex((line) => line.includes(`// fault in ${kernel}`));
  if (marked >= 0) return marked + 1;
  const start = lines.findIndex((line) => line.includes(`kernel void ${kernel}(`));
  return lines.findIndex((line, n) => n > start && line.includes("// fault")) + 1;
}

/** The line, as a message gives it, of the text's only occurrence. */
const lineOf = (text: string): string => `faults\\.metal:${source.split("\n").findIndex((line) => line.includes(text)) + 1}\\b`;

const floats = (count: number): Float32Array => new Float32Array(count);

const cases: readonly Case[] = [
  { kernel: "past_the_end", says: /out of bounds: write of 4 bytes at byte 252 of buffer 0 "out", which has 252/, buffers: { 0: floats(63) } },
  { kernel: "before_the_start", says: /out of bounds: read of 4 bytes at byte -4 of buffer 1 "in"/ },
  { kernel: "inlined", says: /out of bounds: read of 2 bytes at byte 256 of buffer 1 "in"/, buffers: { 0: new Uint16Array(64), 1: new Uint16Array(128) } },
  { kernel: "writes_read_only", says: /write to buffer 1 "in", which is read-only/, buffers: { 1: { data: floats(64), readOnly: true } } },
  { kernel: "misaligned", says: /misaligned write of 16 bytes/ },
  { kernel: "missing_barrier", says: new RegExp(`data race: (read|write) of threadgroup variable "tile".*at ${lineOf("tile[63 - i] = tile[i]")}.*mem_threadgroup`) },
  { kernel: "wrong_flags", says: new RegExp(`data race: read of threadgroup variable "tile".*wrote \\(at ${lineOf("tile[i] = float(i);")}\\)`) },
  { kernel: "lockstep", says: new RegExp(`data race: read of threadgroup variable "first".*wrote \\(at ${lineOf("first[0] = 3.0f")}\\)`) },
  { kernel: "device_race", says: /data race: (read|write) of buffer 0 "out".*mem_device/ },
  { kernel: "groups_race", says: /data race: (read|write) of buffer 0 "out".*another threadgroup/, grid: [128], threads: [64] },
  { kernel: "divergent_sites", says: new RegExp(`divergent threadgroup_barrier: thread \\(0, 0, 0\\).*waits in another one, at ${lineOf("if (i < 32) threadgroup_barrier")}`) },
  { kernel: "barrier_after_return", says: /divergent threadgroup_barrier: .*(has already returned|another thread has returned)/ },
  { kernel: "unequal_trips", says: /divergent threadgroup_barrier: .*(has already returned|another thread has returned)/ },
  { kernel: "divergent_sum", says: new RegExp(`divergent simd_max: .*waits in simd_sum at ${lineOf("x = simd_sum(1.0f);")}`) },
  { kernel: "barrier_in_one_lane", says: new RegExp(`divergent simdgroup_barrier: .*threadgroup_barrier at ${lineOf("  threadgroup_barrier(mem_flags::mem_none);")}`) },
  { kernel: "uneven_delta", says: /simd_shuffle_down: delta is 0 in lane 0 and 1 in lane 1/ },
  { kernel: "inactive_lane", says: /simd_shuffle: lane \d+ reads lane 7, which is not active/ },
  { kernel: "matrix_without_lane", says: /simdgroup_store with 31 active lanes of 32/, grid: [32], threads: [32] },
  { kernel: "matrix_out_of_bounds", says: /out of bounds: write of 4 bytes at byte \d+ of buffer 0 "out"/, grid: [32], threads: [32] },
  { kernel: "never_written", says: /read of threadgroup variable "tile" at byte \d+, which no thread of the group has written/ },
  { kernel: "past_the_tile", says: /out of bounds: write of 4 bytes (at byte 128 of threadgroup variable "tile", which has 128|outside every)/ },
  { kernel: "past_the_argument", says: /out of bounds: write of 2 bytes (at byte 96 of threadgroup variable "tile", which has 96|outside every)/, threadgroupBytes: [96] },
  { kernel: "private_array", says: /index out of bounds of a local array/ },
  { kernel: "component", says: /component 4 of a vector of 4/ },
  { kernel: "zero_divisor", says: /division by zero/ },
  { kernel: "zero_vector_divisor", says: /division by zero/, buffers: { 0: new Int32Array(256) } },
  { kernel: "recursion", order: "reverse", says: /stack overflow/ },
  { kernel: "waits_for_another_group", says: /waits for another in a loop on an atomic/, grid: [2], threads: [1] },
  { kernel: "null_pointer", says: /null pointer: a buffer that is not bound/, constants: [{ name: "HAS_BIAS", type: "bool", value: false }] },
];

describe("a kernel's faults", async () => {
  const library = await openSource("faults.metal", source);
  for (const { kernel, says, ...rest } of cases) {
    test(kernel, () => {
      const buffers = rest.buffers ?? { 0: floats(64), 1: floats(64) };
      const { error, status } = library.run({ grid: [64], threads: [64], ...rest, kernel, buffers });
      expect(error).toMatch(says);
      expect(error).toStartWith(`faults.metal:${faultLine(kernel)}: `);
      expect(error).toContain(`kernel ${kernel}, thread (`);
      expect(status).toBe(1);
    });
  }

  test("a missing barrier is found in every lane order", () => {
    for (const order of ["forward", "reverse", "random:1", "random:2"] as const) {
      const { error } = library.run({ kernel: "missing_barrier", buffers: { 0: floats(64), 1: floats(64) }, grid: [64], threads: [64], order });
      expect(error).toContain("data race");
    }
  });
});

test("a fault leaves nothing behind: the next dispatch of the same process is right", async () => {
  const library = await openSource("again.metal", `#include <metal_stdlib>
using namespace metal;
constant int WIDTH [[function_constant(0)]];
kernel void sums(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], uint i [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  threadgroup float tile[256];
  tile[i] = in[group * 256 + i];
  if (WIDTH > 1 || i != 77) threadgroup_barrier(mem_flags::mem_threadgroup);
  out[group * 256 + i] = tile[255 - i] + simd_sum(1.0f) + float(WIDTH);
}
`);
  const input = Float32Array.from({ length: 512 }, (_, i) => i);
  const sums = (width: number, out: Float32Array, order: "forward" | "reverse" | "random:9"): Dispatch => ({
    kernel: "sums", constants: [{ name: "WIDTH", type: "int", value: width }], buffers: { 0: input, 1: out }, grid: [512], threads: [256], order,
  });
  const outs = [floats(512), floats(512), floats(512), floats(512)];
  const { error, status } = library.runAll([
    sums(1, outs[0] ?? input, "forward"), sums(2, outs[1] ?? input, "reverse"), sums(1, outs[2] ?? input, "random:9"), sums(3, outs[3] ?? input, "forward"),
  ]);
  expect(status).toBe(0);
  expect(error.split("\n")).toHaveLength(2);
  for (const [width, out] of [[2, outs[1]], [3, outs[3]]] as const) {
    expect(Array.from(out ?? [])).toEqual(Array.from({ length: 512 }, (_, i) => (i & 256) + 255 - (i & 255) + 32 + width));
  }
});

describe("the host's mistakes", async () => {
  const library = await openSource("host.metal", `#include <metal_stdlib>
using namespace metal;
constant bool WITH_BIAS [[function_constant(0)]];
constant int WIDTH [[function_constant(3)]];
constant bool MAYBE [[function_constant(4)]];
struct Params { float4 scale; uint count; };
kernel void scaled(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], constant Params& params [[buffer(2)]],
                   device const float* bias [[buffer(3), function_constant(WITH_BIAS)]], threadgroup float* tile [[threadgroup(0)]],
                   uint i [[thread_position_in_grid]]) {
  tile[i % 32] = in[i] * params.scale.x;
  out[i] = tile[i % 32] + (WITH_BIAS ? bias[i] : 0.0f) + float(WIDTH) + (is_function_constant_defined(MAYBE) && MAYBE ? 1.0f : 0.0f);
}
[[max_total_threads_per_threadgroup(128)]] kernel void small(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1.0f; }
kernel void vectors(device float4* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = float4(1.0f); }
kernel void big(device float* out [[buffer(0)]], threadgroup float* tile [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float mine[4096];
  mine[i] = 1.0f;
  tile[i] = mine[i];
  out[i] = tile[i];
}
`);
  const constants = [{ name: "WITH_BIAS", type: "bool", value: false }, { name: "WIDTH", type: "int", value: 2 }] as const;
  const buffers = { 0: floats(32), 1: floats(32), 2: new Uint8Array(32) };
  const good: Dispatch = { kernel: "scaled", constants, buffers, threadgroupBytes: [128], grid: [32], threads: [32] };
  const refused: readonly [string, Partial<Dispatch>, RegExp][] = [
    ["an unknown kernel", { kernel: "nothing" }, /no kernel "nothing"/],
    ["a missing constant", { constants: [constants[0]] }, /kernel scaled needs function constant WIDTH \(3\), which is not given/],
    ["a constant of another type", { constants: [constants[0], { name: "WIDTH", type: "short", value: 2 }] }, /function constant WIDTH \(3\) is a int, and the value given is a short/],
    ["a buffer not bound", { buffers: { 0: buffers[0], 1: buffers[1] } }, /kernel scaled: buffer 2 "params" is not bound/],
    ["an optional buffer not bound", { constants: [{ name: "WITH_BIAS", type: "bool", value: true }, constants[1]] }, /kernel scaled: buffer 3 "bias" is not bound/],
    ["too little for a reference", { buffers: { ...buffers, 2: new Uint8Array(16) } }, /kernel scaled: buffer 2 "params" needs 32 bytes and has 16/],
    ["an offset beyond the end", { buffers: { ...buffers, 0: { data: floats(4), offset: 32 } } }, /buffer 0 "in": offset 32 is beyond the buffer's 16 bytes/],
    ["a misaligned offset", { buffers: { ...buffers, 0: { data: floats(40), offset: 2 } } }, /buffer 0 "in": offset 2 leaves it misaligned/],
    ["no threadgroup memory", { threadgroupBytes: [] }, /kernel scaled: threadgroup memory 0 "tile" has no length/],
    ["threadgroup memory not a multiple of 16", { threadgroupBytes: [132] }, /"tile": its length 132 is not a multiple of 16/],
    ["too many threads", { kernel: "small", threads: [256], grid: [256] }, /kernel small: 256 threads per threadgroup; this kernel takes at most 128/],
    ["a threadgroup too large", { threads: [1024, 2], grid: [1024, 2] }, /2048 threads per threadgroup; this kernel takes at most 1024/],
    ["no threads", { threads: [0] }, /threads per threadgroup: 0 in dimension 0/],
    ["a vector's misaligned offset", { kernel: "vectors", buffers: { 0: { data: floats(64), offset: 4 } } }, /must be a multiple of 16/],
    ["too much threadgroup memory", { kernel: "big", threadgroupBytes: [16400] }, /kernel big: threadgroup memory: 32784 bytes are needed, 32768 is the most/],
  ];
  test("a good dispatch runs", () => {
    const { error } = library.run(good);
    expect(error).toBe("");
    expect(buffers[1][5]).toBe(2);
  });
  for (const [name, change, says] of refused) {
    test(name, () => {
      const { error } = library.run({ ...good, ...change });
      expect(error).toMatch(says);
    });
  }
});
