/** Each rule of the typed check and of the linter has a kernel that breaks it, and is refused by name and line. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkTypes, parseTogether, type Problem } from "./check.ts";
import { defaults, lint, rules } from "./lint/lint.ts";
import type { LintOptions } from "./lint/rule.ts";

// A first run compiles the runtime, which a busy machine may take its time for.
setDefaultTimeout(300_000);

const head = "#include <metal_stdlib>\nusing namespace metal;\n#pragma METAL fp contract(off)\n";

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

/** A kernel around some statements; `out` is device float*, `c` constant float*, `t` threadgroup float*, `i` uint. */
const kernel = (body: string): string =>
  `kernel void k(device float* out [[buffer(0)]], constant float* c [[buffer(1)]], threadgroup float* t [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) {\n  ${body}\n}\n`;

/** rule, what is wrong, the source after the head. The line at fault holds "//!". */
const wrong: readonly [string, string, string][] = [
  // The typed compile.
  ["address-space", "a device pointer kept in a thread pointer", kernel("thread float* p = out; out[0] = p[0];  //!")],
  ["address-space", "a constant pointer kept in a device pointer", kernel("device const float* p = c; out[0] = p[0];  //!")],
  ["address-space", "a device pointer passed as a threadgroup pointer", `float first(threadgroup const float* p) { return p[0]; }\n${kernel("out[0] = first(out);  //!")}`],
  ["address-space", "a reference into another space", `void add(threadgroup float& x) { x += 1.0f; }\n${kernel("add(out[i]);  //!")}`],
  ["address-space", "a template deduced for one space only", `template <typename T> T at(device const T* p, uint i) { return p[i]; }\n${kernel("out[i] = at(t, i);  //!")}`],
  ["address-space", "a return type of another space", `device float* from(threadgroup float* p) { return p; }  //!\n${kernel("out[i] = from(t)[0];")}`],
  ["address-space", "a load into a matrix from constant memory", kernel("simdgroup_float8x8 m; simdgroup_load(m, c); simdgroup_store(m, out);  //!")],
  ["address-space", "atomic_float in threadgroup memory", kernel("threadgroup atomic_float x; atomic_fetch_add_explicit(&x, 1.0f, memory_order_relaxed); out[i] = 0.0f;  //!")],
  ["type", "a write through constant", kernel("c[i] = 1.0f;  //!")],
  ["type", "half assigned a bfloat", kernel("half h = 1.0bf; out[i] = h;  //!")],
  ["bfloat-conversion", "float to bfloat without a cast", kernel("bfloat b = out[i]; out[i] = b;  //!")],
  ["bfloat-conversion", "half to bfloat in a return", `bfloat narrow(float x) { return x; }  //!\n${kernel("out[i] = narrow(out[i]);")}`],
  ["bfloat-conversion", "bfloat to int", kernel("int n = 1.5bf; out[i] = float(n);  //!")],
  ["constant-initializer", "a constant initialised by a function that is not constexpr", `float half_of(float x) { return x / 2.0f; }\nconstant float H = half_of(3.0f);  //!\n${kernel("out[i] = H;")}`],
  ["function-constant-bound", "an array of a function constant's size", `constant uint N [[function_constant(0)]];\n${kernel("float a[N]; a[0] = 1.0f; out[i] = a[0];  //!")}`],
  ["missing-return", "a function without its return", `float none(float x) {\n  if (x > 0.0f) return x;\n}  //!\n${kernel("out[i] = none(1.0f);")}`],
  ["shift-count", "a shift as wide as its type", kernel("out[i] = float(1u << 32);  //!")],
  ["uninitialized", "a variable used before it has a value", kernel("float x; out[i] = x;  //!")],
  ["type", "max of int and uint", kernel("int a = 1; uint b = 2; out[i] = float(max(a, b));  //!")],
  ["type", "a function constant as a template argument", `constant uint N [[function_constant(0)]];\ntemplate <uint M> float f() { return float(M); }\n${kernel("out[i] = f<N>();  //!")}`],
  // Address spaces that C++ cannot see missing.
  ["address-space-missing", "a parameter", `float first(float* p) { return p[0]; }  //!\n${kernel("float a[1] = {1.0f}; out[i] = first(a);")}`],
  ["address-space-missing", "a reference parameter", `template <typename T> void twice(T& x) { x += x; }  //!\n${kernel("float a = 1.0f; twice(a); out[i] = a;")}`],
  ["address-space-missing", "a local pointer", kernel("float a[2] = {1.0f, 2.0f}; float* p = a; out[i] = p[i];  //!")],
  ["address-space-missing", "a cast", kernel("out[i] = *(float*)(out + i);  //!")],
  ["address-space-missing", "a reinterpret_cast", kernel("out[i] = float(reinterpret_cast<const uint*>(c)[i]);  //!")],
  ["address-space-missing", "a member", `struct Holder { float* p; };  //!\n${kernel("out[i] = 1.0f;")}`],
  ["address-space-missing", "a typedef", `typedef float* pointer;  //!\n${kernel("out[i] = 1.0f;")}`],
  ["address-space-missing", "a return type", `float* pick(thread float* a) { return a; }  //!\n${kernel("out[i] = 1.0f;")}`],
  ["address-space-cast", "a cast that changes the space", kernel("out[i] = ((threadgroup float*)out)[i];  //!")],
  ["threadgroup-variable", "in a helper", `void helper(uint i) {\n  threadgroup float s[4];  //!\n  s[i] = 1.0f;\n}\n${kernel("helper(i); out[i] = 1.0f;")}`],
  ["threadgroup-variable", "in a block", kernel("if (i < 4) {\n    threadgroup float s[4];  //!\n    s[i] = 1.0f;\n  }\n  out[i] = 1.0f;")],
  ["threadgroup-variable", "with an initialiser", kernel("threadgroup float s = 0.0f; out[i] = s;  //!")],
  ["program-scope-variable", "not constant", `float g = 1.0f;  //!\n${kernel("out[i] = g;")}`],
  ["program-scope-variable", "constant without an initialiser", `constant float g;  //!\n${kernel("out[i] = g;")}`],
  ["static-local", "a static local", kernel("static constant float s = 1.0f; out[i] = s;  //!")],
  // Kernels.
  ["kernel-name", "an instantiation without host_name", "template <typename T> kernel void k(device T* out [[buffer(0)]]) { out[0] = T(1); }\ntemplate kernel void k<float>(device float*);  //!\n"],
  ["kernel-name", "a host_name twice", "template <typename T> kernel void k(device T* out [[buffer(0)]]) { out[0] = T(1); }\ntemplate [[host_name(\"a\")]] kernel void k<float>(device float*);\ntemplate [[host_name(\"a\")]] kernel void k<half>(device half*);  //!\n"],
  ["kernel-name", "a kernel that calls a kernel", `kernel void a(device float* out [[buffer(0)]]) { out[0] = 1.0f; }\nkernel void b(device float* out [[buffer(0)]]) { a(out); }  //!\n`],
  ["kernel-name", "a kernel that returns a value", "kernel float k(device float* out [[buffer(0)]]) { return out[0]; }  //!\n"],
  ["kernel-name", "an overloaded kernel", "kernel void k(device float* out [[buffer(0)]]) { out[0] = 1.0f; }\nkernel void k(device half* out [[buffer(0)]]) { out[0] = 1.0h; }  //!\n"],
  ["kernel-name", "a template without instantiations", "template <typename T> kernel void k(device T* out [[buffer(0)]]) { out[0] = T(1); }  //!\n"],
  ["argument-index", "no index", "kernel void k(device float* out) { out[0] = 1.0f; }  //!\n"],
  ["argument-index", "an index twice", "kernel void k(device float* a [[buffer(0)]],\n  device float* b [[buffer(0)]]) { a[0] = b[0]; }  //!\n"],
  ["argument-index", "an index above 30", "kernel void k(device float* a [[buffer(31)]]) { a[0] = 1.0f; }  //!\n"],
  ["argument-index", "a threadgroup argument without an index", "kernel void k(device float* a [[buffer(0)]], threadgroup float* t, uint i [[thread_index_in_threadgroup]]) { t[i] = 1.0f; a[i] = t[i]; }  //!\n"],
  ["builtin-type", "a float position", "kernel void k(device float* a [[buffer(0)]], float i [[thread_position_in_grid]]) { a[0] = i; }  //!\n"],
  ["builtin-type", "positions of two and three components", "kernel void k(device float* a [[buffer(0)]], uint3 i [[thread_position_in_threadgroup]],\n  uint2 g [[threadgroup_position_in_grid]]) { a[i.x] = float(g.x); }  //!\n"],
  ["builtin-type", "a uint lane and a ushort simdgroup", "kernel void k(device float* a [[buffer(0)]], uint l [[thread_index_in_simdgroup]],\n  ushort s [[simdgroup_index_in_threadgroup]]) { a[l] = float(s); }  //!\n"],
  ["builtin-type", "a vector lane", "kernel void k(device float* a [[buffer(0)]], uint2 l [[thread_index_in_simdgroup]]) { a[l.x] = 1.0f; }  //!\n"],
  ["builtin-type", "a ushort index beside a uint position", "kernel void k(device float* a [[buffer(0)]], uint3 p [[thread_position_in_threadgroup]],\n  ushort i [[thread_index_in_threadgroup]]) { a[p.x] = float(i); }  //!\n"],
  ["argument-type", "a size_t in a structure", `struct Params { size_t n; };  //!\nkernel void k(device float* a [[buffer(0)]], constant Params& p [[buffer(1)]]) { a[p.n] = 1.0f; }\n`],
  ["argument-type", "a pointer to ptrdiff_t", "kernel void k(device float* a [[buffer(0)]], constant ptrdiff_t& n [[buffer(1)]]) { a[n] = 1.0f; }  //!\n"],
  ["argument-type", "a derived structure", "struct Base { uint n; };\nstruct Params : Base { uint m; };  //!\nkernel void k(device float* a [[buffer(0)]], constant Params& p [[buffer(1)]]) { a[p.m] = 1.0f; }\n"],
  ["shared-layout", "a float3 in a structure", "struct Params { float3 scale; };  //!\nkernel void k(device float* a [[buffer(0)]], constant Params& p [[buffer(1)]]) { a[0] = p.scale.x; }\n"],
  ["shared-layout", "a bool in a structure", "struct Params { bool on; };  //!\nkernel void k(device float* a [[buffer(0)]], constant Params& p [[buffer(1)]]) { a[0] = p.on ? 1.0f : 0.0f; }\n"],
  ["max-threads", "more threads than a group may have", "[[max_total_threads_per_threadgroup(2048)]] kernel void k(device float* a [[buffer(0)]]) { a[0] = 1.0f; }  //!\n"],
  ["function-constant", "an index twice", `constant int A [[function_constant(3)]];\nconstant int B [[function_constant(3)]];  //!\n${kernel("out[i] = float(A + B);")}`],
  ["function-constant", "a structure", `struct S { int x; };\nconstant S A [[function_constant(0)]];  //!\n${kernel("out[i] = float(A.x);")}`],
  ["function-constant", "an index beyond 65535", `constant int A [[function_constant(70000)]];  //!\n${kernel("out[i] = float(A);")}`],
  // The language.
  ["language", "double", kernel("double d = 1.0f; out[i] = float(d);  //!")],
  ["language", "long long", kernel("long long d = 1; out[i] = float(d);  //!")],
  ["language", "goto", kernel("goto end;  //!\n  end: out[i] = 1.0f;")],
  ["language", "virtual", `struct S { virtual float f() { return 1.0f; } };  //!\n${kernel("out[i] = 1.0f;")}`],
  ["language", "a derived class", `struct A { float x; };\nstruct B : A { float y; };  //!\n${kernel("B b; b.x = 1.0f; out[i] = b.x;")}`],
  ["language", "new", kernel("thread float* p = new float(1.0f); out[i] = p[0];  //!")],
  ["language", "the standard library", `namespace std { inline float one() { return 1.0f; } }  //!\n${kernel("out[i] = 1.0f;")}`],
  ["cxx17", "if constexpr", kernel("if constexpr (sizeof(float) == 4) out[i] = 1.0f;  //!")],
  ["cxx17", "a structured binding", `struct P { float a, b; };\n${kernel("P p = {1.0f, 2.0f}; auto [x, y] = p; out[i] = x + y;  //!")}`],
  ["cxx17", "an if with an initialiser", kernel("if (float x = out[i]; x > 0.0f) out[i] = x;  //!")],
  ["cxx17", "a fold expression", `template <typename... T> float sum(T... x) { return (x + ...); }  //!\n${kernel("out[i] = sum(1.0f, 2.0f);")}`],
  ["function-pointer", "a function's pointer as a parameter", `float one() { return 1.0f; }\nfloat call(float (*f)()) { return f(); }  //!\n${kernel("out[i] = call(one);")}`],
  ["reserved-name", "a parameter called sampler", `float f(float sampler) { return sampler; }  //!\n${kernel("out[i] = f(1.0f);")}`],
  ["reserved-name", "a local called texture2d", kernel("float texture2d = 1.0f; out[i] = texture2d;  //!")],
  ["literal-suffix", "a literal without a suffix", kernel("out[i] = 0.5;  //!")],
  ["narrow-counter", "a short counter up to a runtime size", "kernel void k(device float* a [[buffer(0)]], constant int& n [[buffer(1)]]) {\n  for (short t = 0; t < n; ++t) a[t] = 1.0f;  //!\n}\n"],
  ["gpu-family", "a function of the M2", kernel("out[i] = simd_shuffle_and_fill_down(1.0f, 2.0f, ushort(1));  //!")],
  ["memory-order", "an acquire", kernel("device atomic_uint* a = (device atomic_uint*)out; out[1] = float(atomic_load_explicit(a, memory_order_acquire));  //!")],
  ["memory-order", "a sequentially consistent atomic", kernel("device atomic_uint* a = (device atomic_uint*)out; atomic_store_explicit(a, 1u, memory_order_seq_cst);  //!")],
  ["coherent", "a device fence without coherent arguments", "kernel void k(device atomic_uint* n [[buffer(0)]], device float* a [[buffer(1)]]) {  //!\n  a[0] = 1.0f;\n  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);\n  atomic_store_explicit(n, 1u, memory_order_relaxed);\n}\n"],
];

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
