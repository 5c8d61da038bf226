/** A built library's description of itself, and the front end's description of sources. */
import { expect, setDefaultTimeout } from "bun:test";
import { join } from "node:path";
import { openSource } from "./harness.ts";
import { reflectUnits } from "./reflect.ts";
import { preprocessParts } from "./frontend/preprocess.ts";
import { parseUnit } from "./frontend/unit.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const source = `#include <metal_stdlib>
using namespace metal;
struct Params { uint count; float4 scale; };
constant bool BIAS [[function_constant(0)]];
constant ushort WIDTH [[function_constant(1 + 2 * 3)]];
constant float4 TINT [[function_constant(20)]];
constant bool UNUSED [[function_constant(30)]];
constant uint AREA = WIDTH * WIDTH;
inline float tint() { return TINT.x + (is_function_constant_defined(TINT) ? 1.0f : 0.0f); }
namespace shapes {
[[max_total_threads_per_threadgroup(256)]] kernel void plain(device const half* in [[buffer(2)]], device float4* out [[buffer(0)]], constant Params& params [[buffer(5)]],
    threadgroup packed_float3* shared [[threadgroup(1)]], uint2 position [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[33];
  threadgroup uchar flags[5];
  tile[lane] = float(in[position.x]); flags[lane % 5] = 1; shared[lane] = float3(0.0f);
  out[position.y] = params.scale * float(AREA) + tint() + tile[lane];
}
}
template <typename T, uint N> kernel void many(device T* out [[buffer(0)]], device const void* bias [[buffer(1), function_constant(BIAS)]], device atomic_uint* count [[buffer(3)]]) {
  threadgroup T tile[N];
  tile[0] = T(N); out[0] = tile[0];
}
template [[host_name("many_half_8")]] kernel void many<half, 8>(device half*, device const void*, device atomic_uint*);
typedef decltype(many<float, 4>) many_t;
template [[host_name("many_float4_64")]] kernel many_t many<vec<float, 4>, 64>;
`.replace(
  "kernel many_t many<vec<float, 4>, 64>",
  "[[kernel]] decltype(many<vec<float, 4>, 64>) many<vec<float, 4>, 64>",
);

describe("reflection", async () => {
  const library = await openSource("reflected.metal", source);
  const { kernels } = library.reflect();
  const named = (name: string): (typeof kernels)[number] | undefined => kernels.find((k) => k.name === name);

  test("names and places", () => {
    expect(kernels.map((k) => [k.name, k.file])).toEqual([
      ["shapes::plain", "reflected.metal"],
      ["many_half_8", "reflected.metal"],
      ["many_float4_64", "reflected.metal"],
    ]);
    const line = (text: string): number => source.split("\n").findIndex((l) => l.includes(text)) + 1;
    expect(kernels.map((k) => k.line)).toEqual([
      line("kernel void plain"),
      line("many_half_8"),
      line("many_float4_64"),
    ]);
  });

  test("arguments", () => {
    expect(named("shapes::plain")?.buffers).toEqual([
      {
        index: 2,
        name: "in",
        space: "device",
        const: true,
        reference: false,
        type: "half",
        bytes: 2,
        align: 2,
        optional: null,
      },
      {
        index: 0,
        name: "out",
        space: "device",
        const: false,
        reference: false,
        type: "float4",
        bytes: 16,
        align: 16,
        optional: null,
      },
      {
        index: 5,
        name: "params",
        space: "constant",
        const: true,
        reference: true,
        type: "Params",
        bytes: 32,
        align: 16,
        optional: null,
      },
    ]);
    expect(named("shapes::plain")?.threadgroups).toEqual([
      { index: 1, name: "shared", type: "packed_float3", bytes: 12, align: 4 },
    ]);
    expect(named("shapes::plain")?.builtins).toEqual([
      { name: "position", attribute: "thread_position_in_grid", type: "uint2" },
      { name: "lane", attribute: "thread_index_in_simdgroup", type: "ushort" },
    ]);
    expect(named("many_half_8")?.buffers).toEqual([
      {
        index: 0,
        name: "out",
        space: "device",
        const: false,
        reference: false,
        type: "half",
        bytes: 2,
        align: 2,
        optional: null,
      },
      {
        index: 1,
        name: "bias",
        space: "device",
        const: true,
        reference: false,
        type: "void",
        bytes: 1,
        align: 1,
        optional: "BIAS",
      },
      {
        index: 3,
        name: "count",
        space: "device",
        const: false,
        reference: false,
        type: "atomic_uint",
        bytes: 4,
        align: 4,
        optional: null,
      },
    ]);
  });

  test("function constants that the code can reach", () => {
    expect(named("shapes::plain")?.constants).toEqual([
      { index: 7, name: "WIDTH", type: "ushort", bytes: 2, required: true },
      { index: 20, name: "TINT", type: "float4", bytes: 16, required: false },
    ]);
    expect(named("many_half_8")?.constants).toEqual([
      { index: 0, name: "BIAS", type: "bool", bytes: 1, required: true },
    ]);
  });

  test("threadgroup memory and limits", () => {
    expect(named("shapes::plain")?.staticThreadgroupBytes).toBe(144);
    expect(kernels.map((k) => k.staticThreadgroupBytes).slice(1)).toEqual([16, 1024]);
    expect(kernels.map((k) => k.maxTotalThreads)).toEqual([256, 1024, 1024]);
  });
});

describe("the front end", () => {
  test("macros, conditions and includes are gone, and places are the sources' own", async () => {
    const library = await openSource(
      "outer.metal",
      `#include <metal_stdlib>
using namespace metal;
#define ARGUMENT(type, name, n) device type* name [[buffer(n)]]
#define INSTANTIATE(type) template [[host_name("fill_" #type)]] kernel decltype(fill<type>) fill<type>;
#if __METAL_VERSION__ >= 320 && defined(__METAL_MACOS__)
template <typename T> kernel void fill(ARGUMENT(T, out, 0), uint i [[thread_position_in_grid]]) {
  out[i] = T(3);
}
#else
#error "not MSL 3.2"
#endif
INSTANTIATE(float)
INSTANTIATE(ushort)
`,
    );
    expect(library.reflect().kernels.map((k) => [k.name, k.line])).toEqual([
      ["fill_float", 12],
      ["fill_ushort", 13],
    ]);
    const out = new Uint16Array(3);
    expect(library.run({ kernel: "fill_ushort", buffers: { 0: out }, grid: [3], threads: [3] }).error).toBe("");
    expect(Array.from(out)).toEqual([3, 3, 3]);
    expect(library.run({ kernel: "fill_ushort", buffers: { 0: out }, grid: [4], threads: [4] }).error).toStartWith(
      "outer.metal:7: out of bounds",
    );
  });

  test("functions that differ by address space alone are one here if their bodies agree, and an error if not", async () => {
    const twins = (body: string): string => `#include <metal_stdlib>
using namespace metal;
inline float first(device const float* p) { return p[0]; }
inline float first(threadgroup const float* p) { return ${body}; }
kernel void k(device float* out [[buffer(0)]]) { threadgroup float t[1]; t[0] = 2.0f; out[1] = first(t); out[0] = first(out + 1); }
`;
    const library = await openSource("twins.metal", twins("p[0]"));
    const out = new Float32Array(2);
    expect(library.run({ kernel: "k", buffers: { 0: out }, grid: [1], threads: [1] }).error).toBe("");
    expect(Array.from(out)).toEqual([2, 2]);
    expect(openSource("twins.metal", twins("p[0] + 1.0f"))).rejects.toThrow(
      /twins\.metal:4: first differs from the one at twins\.metal:3 by address space alone/,
    );
  });

  test("sources alone are reflected without a build", () => {
    const shaders = join(import.meta.dirname, "..", "..", "shaders", "gates.metal");
    const [kernel] = reflectUnits([shaders]).kernels as { name: string; buffers: { index: number; name: string }[] }[];
    expect(kernel?.name).toBe("gd_gates");
    expect(kernel?.buffers.find((b) => b.index === 0)?.name).toBe("gate");
  });

  test("what cannot be read is said with its place", () => {
    expect(() =>
      parseUnit("kernel void k(device float* out [[buffer(0)]]) {\n  out[0] = (1.0f;\n}\n", "open.metal"),
    ).toThrow(/open\.metal:[123]: /);
    expect(() =>
      parseUnit('template [[host_name("x")]] kernel void missing<float>(device float*);\n', "none.metal"),
    ).toThrow(/none\.metal:1: instantiates missing/);
    expect(() => parseUnit("kernel void k(float x) { }\n", "value.metal")).toThrow(
      /value\.metal:1: kernel k: parameter x is neither a buffer nor a known attribute/,
    );
    expect(() => preprocessParts(["/nowhere/none.metal"])).toThrow(/none\.metal/);
  });
});
