/** Each rule of the typed check and of the linter has a kernel that breaks it and is refused with the rule's name and the line. */
import { expect, setDefaultTimeout } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkTypes, parseTogether, type Problem } from "./check.ts";
import { head, kernel, wrongTypes } from "./lint-cases.ts";
import { wrongKernels } from "./lint-cases-kernels.ts";
import { defaults, lint, rules } from "./lint/lint.ts";
import type { LintOptions } from "./lint/rule.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

function problemsOf(text: string, options: LintOptions = defaults): Problem[] {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-lint-"));
  try {
    writeFileSync(join(folder, "wrong.metal"), text);
    const unit = parseTogether(["wrong.metal"], { directory: folder });
    return [...checkTypes(unit), ...lint(unit, options)];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const wrong = [...wrongTypes, ...wrongKernels];

describe("refused by name", () => {
  for (const [rule, what, source] of wrong) {
    test(`${rule}: ${what}`, () => {
      const text = head + source;
      const line = text.split("\n").findIndex((l) => l.includes("//!")) + 1;
      const found = problemsOf(text).filter((p) => p.rule === rule);
      expect(found.map((p) => `${p.file}:${p.line}`)).toContain(`wrong.metal:${line}`);
    });
  }

  test("non-finite: infinity under fast math", () => {
    const text = head + kernel("out[i] = INFINITY;");
    expect(problemsOf(text, { ...defaults, mathMode: "fast" }).map((p) => p.rule)).toEqual(["non-finite"]);
    expect(problemsOf(text)).toEqual([]);
  });

  test("contraction: no pragma", () => {
    const text = `#include <metal_stdlib>\nusing namespace metal;\n${kernel("out[i] = 1.0f;")}`;
    expect(problemsOf(text).map((p) => `${p.line} ${p.rule}`)).toEqual(["3 contraction"]);
  });

  test("every rule of the linter is in this file", () => {
    const tested = new Set([...wrong.map(([rule]) => rule), "non-finite", "contraction"]);
    expect(rules.map((r) => r.name).filter((name) => !tested.has(name))).toEqual([]);
  });
});

describe("accepted", () => {
  test("what Metal allows", () => {
    const text = `${head}
struct Params { uint count; float scale; packed_float3 origin; };
struct Pair { float a; float b; };
constant bool FLAG [[function_constant(0)]];
constant bool BOTH = FLAG && true;
constant float TABLE[2] = {1.0f, 2.0f};
template <typename T> struct Tile { T rows[4]; T sum() const thread { return rows[0] + rows[1]; } };
template <typename T> inline T load(device const T* p, uint i) { return p[i]; }
template <typename T> inline T load(threadgroup const T* p, uint i) { return p[i]; }
template <typename T> inline T total(thread const Tile<T>& tile, thread const T* more, thread T& last) { last = tile.sum() + more[0]; return last; }
inline float scaled(thread const Pair& p, thread const float& by = 2.0f) { return (p.a + p.b) * by; }
inline void swap(thread float& a, thread float& b) { float t = a; a = b; b = t; }
inline float4 widen(half4 v) { return float4(v) * (float)TABLE[1] + (float4)v.wzyx; }
template <typename T, uint N>
kernel void k(device const T* in [[buffer(0)]], device T* out [[buffer(1)]], constant Params& params [[buffer(2)]],
              device Pair* pairs [[buffer(3), function_constant(FLAG)]], threadgroup float4* tile [[threadgroup(0)]],
              uint3 group [[threadgroup_position_in_grid]], uint i [[thread_index_in_threadgroup]],
              ushort lane [[thread_index_in_simdgroup]], ushort simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup Pair shared[N];
  typedef vec<T, 4> T4;
  Tile<T> t;
  for (uint r = 0; r < 4; ++r) t.rows[r] = load(in, i + r * params.count);
  T4 v = T4(t.rows[0], t.rows[1], t.rows[2], t.rows[3]);
  float a = float(v.x), b = float(v.y);
  swap(a, b);
  tile[i] = float4(v) + widen(half4(1.0h));
  shared[i] = Pair{a, b};
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Pair p = shared[i ^ 1];
  if (BOTH) pairs[i] = p;
  T values[2] = {t.rows[0], t.rows[1]};
  values[1] = total(t, values, values[0]) + T(scaled(p) + scaled(p, 3.0f) + scaled(Pair{a, b}, p.a));
  device T4* wide = (device T4*)(out);
  wide[i] = select(v, T4(T(p.a)), v > T4(T(0)));
  auto total = [&](float x) { return simd_sum(x); };
  out[i] = T(total(p.a) + load((threadgroup const float*)tile, i) * params.scale + params.origin.x) + t.sum() * T(lane + simdgroup);
}
template [[host_name("k_float")]] kernel decltype(k<float, 64>) k<float, 64>;
template [[host_name("k_half")]] [[kernel]] void k<half, 64>(device const half*, device half*, constant Params&, device Pair*, threadgroup float4*, uint3, uint, ushort, ushort);
`;
    expect(problemsOf(text)).toEqual([]);
  });
});
