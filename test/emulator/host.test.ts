/** A host's wrong binding is refused, naming kernel and argument, before the kernel runs; and the state that a fault leaves behind. */
import { expect, setDefaultTimeout } from "bun:test";
import { openSource, type Dispatch } from "./harness.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const floats = (count: number): Float32Array => new Float32Array(count);

test("a fault leaves nothing behind: the next dispatch of the same process is right", async () => {
  const library = await openSource(
    "again.metal",
    `#include <metal_stdlib>
using namespace metal;
constant int WIDTH [[function_constant(0)]];
kernel void sums(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], uint i [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  threadgroup float tile[256];
  tile[i] = in[group * 256 + i];
  if (WIDTH > 1 || i != 77) threadgroup_barrier(mem_flags::mem_threadgroup);
  out[group * 256 + i] = tile[255 - i] + simd_sum(1.0f) + float(WIDTH);
}
`,
  );
  const input = Float32Array.from({ length: 512 }, (_, i) => i);
  const sums = (width: number, out: Float32Array, order: "forward" | "reverse" | "random:9"): Dispatch => ({
    kernel: "sums",
    constants: [{ name: "WIDTH", type: "int", value: width }],
    buffers: { 0: input, 1: out },
    grid: [512],
    threads: [256],
    order,
  });
  const outs = [floats(512), floats(512), floats(512), floats(512)];
  const { error, status } = library.runAll([
    sums(1, outs[0] ?? input, "forward"),
    sums(2, outs[1] ?? input, "reverse"),
    sums(1, outs[2] ?? input, "random:9"),
    sums(3, outs[3] ?? input, "forward"),
  ]);
  expect(status).toBe(0);
  expect(error.split("\n")).toHaveLength(2);
  for (const [width, out] of [
    [2, outs[1]],
    [3, outs[3]],
  ] as const) {
    expect(Array.from(out ?? [])).toEqual(
      Array.from({ length: 512 }, (_, i) => (i & 256) + 255 - (i & 255) + 32 + width),
    );
  }
});

describe("the host's mistakes", async () => {
  const library = await openSource(
    "host.metal",
    `#include <metal_stdlib>
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
`,
  );
  const constants = [
    { name: "WITH_BIAS", type: "bool", value: false },
    { name: "WIDTH", type: "int", value: 2 },
  ] as const;
  const buffers = { 0: floats(32), 1: floats(32), 2: new Uint8Array(32) };
  const good: Dispatch = { kernel: "scaled", constants, buffers, threadgroupBytes: [128], grid: [32], threads: [32] };
  const refused: readonly [string, Partial<Dispatch>, RegExp][] = [
    ["an unknown kernel", { kernel: "nothing" }, /no kernel "nothing"/],
    [
      "a missing constant",
      { constants: [constants[0]] },
      /kernel scaled needs function constant WIDTH \(3\), which is not given/,
    ],
    [
      "a constant of another type",
      { constants: [constants[0], { name: "WIDTH", type: "short", value: 2 }] },
      /function constant WIDTH \(3\) is a int, and the value given is a short/,
    ],
    [
      "a buffer not bound",
      { buffers: { 0: buffers[0], 1: buffers[1] } },
      /kernel scaled: buffer 2 "params" is not bound/,
    ],
    [
      "an optional buffer not bound",
      { constants: [{ name: "WITH_BIAS", type: "bool", value: true }, constants[1]] },
      /kernel scaled: buffer 3 "bias" is not bound/,
    ],
    [
      "too little for a reference",
      { buffers: { ...buffers, 2: new Uint8Array(16) } },
      /kernel scaled: buffer 2 "params" needs 32 bytes and has 16/,
    ],
    [
      "an offset beyond the end",
      { buffers: { ...buffers, 0: { data: floats(4), offset: 32 } } },
      /buffer 0 "in": offset 32 is beyond the buffer's 16 bytes/,
    ],
    [
      "a misaligned offset",
      { buffers: { ...buffers, 0: { data: floats(40), offset: 2 } } },
      /buffer 0 "in": offset 2 leaves it misaligned/,
    ],
    ["no threadgroup memory", { threadgroupBytes: [] }, /kernel scaled: threadgroup memory 0 "tile" has no length/],
    [
      "threadgroup memory not a multiple of 16",
      { threadgroupBytes: [132] },
      /"tile": its length 132 is not a multiple of 16/,
    ],
    [
      "too many threads",
      { kernel: "small", threads: [256], grid: [256] },
      /kernel small: 256 threads per threadgroup; this kernel takes at most 128/,
    ],
    [
      "a threadgroup too large",
      { threads: [1024, 2], grid: [1024, 2] },
      /2048 threads per threadgroup; this kernel takes at most 1024/,
    ],
    ["no threads", { threads: [0] }, /threads per threadgroup: 0 in dimension 0/],
    [
      "a vector's misaligned offset",
      { kernel: "vectors", buffers: { 0: { data: floats(64), offset: 4 } } },
      /must be a multiple of 16/,
    ],
    [
      "too much threadgroup memory",
      { kernel: "big", threadgroupBytes: [16400] },
      /kernel big: threadgroup memory: 32784 bytes are needed, 32768 is the most/,
    ],
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
