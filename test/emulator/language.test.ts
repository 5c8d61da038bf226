/** Metal's types, operators and library as the specification describes them, one expression per case. */
import { expect, setDefaultTimeout } from "bun:test";
import { CompileError } from "./compile.ts";
import { openSource } from "./harness.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

/** Expressions that are true in Metal. `x` is 1.5f, `n` is 7, `v` is float4(1, 2, 3, 4), all unknown to the compiler. */
const truths: readonly string[] = [
  // Sizes and alignments (tables 2.2 to 2.5).
  "sizeof(bool3) == 4 && sizeof(char3) == 4 && sizeof(half3) == 8 && sizeof(float3) == 16 && sizeof(long3) == 32",
  "alignof(float4) == 16 && alignof(half2) == 4 && alignof(float3) == 16 && alignof(packed_float3) == 4",
  "sizeof(packed_float3) == 12 && sizeof(packed_half3) == 6 && sizeof(packed_char4) == 4",
  "sizeof(float2x3) == 32 && sizeof(half3x2) == 12 && sizeof(float4x4) == 64",
  "sizeof(size_t) == 8 && sizeof(long) == 8 && sizeof(half) == 2 && sizeof(bfloat) == 2",
  // Constructors, swizzles.
  "all(float4(v.xy, v.zw) == v) && all(float4(float3(1.0f, 2.0f, 3.0f), 4.0f) == v) && all(float4(1.0f, v.yz, 4) == v)",
  "all(float4(x) == float4(1.5f, 1.5f, 1.5f, 1.5f))",
  "all(v.wzyx == float4(4, 3, 2, 1)) && all(v.rgba == v) && all(v.xxy == float3(1, 1, 2)) && v.b == 3.0f",
  "all(int4(v * 1.9f) == int4(1, 3, 5, 7)) && all(uint2(v.zw) == uint2(3, 4))",
  "all(half4(v) == half4(1.0h, 2.0h, 3.0h, 4.0h)) && all(bfloat4(v) == bfloat4(1.0bf, 2.0bf, 3.0bf, 4.0bf))",
  "swizzled(v).x == 9.0f && swizzled(v).w == 8.0f && swizzled(v).y == 2.0f",
  "indexed(v, 2) == 30.0f && v[n - 4] == 4.0f",
  "all(float3(packed_float3(1, 2, 3)) == float3(1, 2, 3)) && packed_float3(v.xyz).z == 3.0f",
  // Operators: a scalar widens, comparisons give bools.
  "all(v + 1 == float4(2, 3, 4, 5)) && all(2 * v == v + v) && all(v / 2.0f == float4(0.5f, 1, 1.5f, 2))",
  "any(v > 3.0f) && !all(v > 3.0f) && all((v < 3.0f) == bool4(true, true, false, false))",
  "all(!(v < 3.0f) == bool4(false, false, true, true)) && all((v < 2.0f || v > 3.0f) == bool4(true, false, false, true))",
  "all(select(v, -v, v > 2.0f) == float4(1, 2, -3, -4)) && select(1.0f, 2.0f, n == 7) == 2.0f",
  "all((int4(1, 2, 3, 4) << 1) == int4(2, 4, 6, 8)) && all((uint2(5, 9) % 4) == uint2(1, 1)) && all((int2(6, 3) & 5) == int2(4, 1))",
  "all(-v == v * -1.0f) && all(~int2(0, -1) == int2(-1, 0))",
  "all((uint2(1, 1) << uint2(33, 1)) == uint2(2, 2))",
  // Conversions: half and bfloat round to nearest, ties to even, once per operation.
  "as_type<ushort>(half(2049.0f + x * 0.0f)) == 0x6800 && as_type<ushort>(half(2051.0f)) == 0x6802",
  "as_type<ushort>(bfloat(257.0f)) == 0x4380 && as_type<ushort>(bfloat(259.0f)) == 0x4382",
  "as_type<ushort>(half(70000.0f)) == 0x7c00 && isnan(bfloat(NAN)) && isinf(half(INFINITY))",
  "(half(n) * half(0.1f)) + half(0.1f) == half(float(half(float(half(n)) * float(half(0.1f)))) + float(half(0.1f)))",
  "bfloat(n) * bfloat(0.1f) - bfloat(0.7f) == bfloat(float(bfloat(float(bfloat(n)) * float(bfloat(0.1f)))) - float(bfloat(0.7f)))",
  "is_same_v<decltype(bfloat(1.0f) * bfloat(1.0f)), bfloat> && is_same_v<decltype(half(1.0f) + half(1.0f)), half>",
  "is_same_v<decltype(bfloat(1.0f) * x), float> && is_same_v<decltype(exp(bfloat(1.0f))), float>",
  "0.1 * 3 == 0.1f * 3.0f && sizeof(1.0) == 4 && sizeof(1.0h) == 2 && sizeof(1.5bf) == 2 && 1e3 == 1000.0f",
  "as_type<uint>(1.0f) == 0x3f800000u && all(as_type<ushort2>(0x00020001u) == ushort2(1, 2)) && as_type<float3>(v).z == 3.0f",
  // Fused where written, and only there.
  "fma(x + 0x1p-23f, x, -2.25f) != (x + 0x1p-23f) * x - 2.25f",
  "all(fma(v, v, float4(1.0f)) == v * v + 1.0f) && fma(half(3), half(5), half(1)) == half(16)",
  // Common, integer and relational functions.
  "max(n, 3) == 7 && min(2u, 3u) == 2u && clamp(x, 0.0f, 1.0f) == 1.0f && clamp(n, 1, 5) == 5 && max3(1, n, 3) == 7 && median3(3, 1, n) == 3",
  "all(max(v, 2.0f) == float4(2, 2, 3, 4)) && all(clamp(v, 2.0f, 3.0f) == float4(2, 2, 3, 3)) && all(min(int2(1, 5), int2(3)) == int2(1, 3))",
  "max(NAN, x) == x && min(x, NAN) == x && fmax(x, NAN) == x",
  "mix(1.0f, 3.0f, 0.5f) == 2.0f && saturate(x) == 1.0f && sign(-x) == -1.0f && step(2.0f, x) == 0.0f && smoothstep(0.0f, 1.0f, 0.5f) == 0.5f",
  "popcount(0xf0f0u) == 8 && clz(1u) == 31 && ctz(8u) == 3 && clz(ushort(1)) == 15 && clz(0) == 32 && ctz(0u) == 32",
  "reverse_bits(1u) == 0x80000000u && rotate(0x80000001u, 1u) == 3u && mulhi(0x80000000u, 4u) == 2u && absdiff(3, -4) == 7",
  "addsat(2147483647, n) == 2147483647 && subsat(3u, 5u) == 0u && hadd(-3, -4) == -4 && rhadd(3, 4) == 4 && madhi(1 << 30, 4, 1) == 2",
  "extract_bits(0xabcdu, 4u, 8u) == 0xbcu && extract_bits(0xf0, 4u, 4u) == -1 && insert_bits(0u, 0xffu, 4u, 4u) == 0xf0u",
  "abs(-n) == 7 && abs(-x) == x && fabs(-x) == x && mul24(-3, n) == -21",
  "isfinite(x) && !isfinite(INFINITY) && isnormal(x) && !isnormal(0x1p-130f) && signbit(-0.0f) && any(isnan(float2(1.0f, NAN)))",
  // Mathematics.
  "exp(0.0f) == 1.0f && exp2(3.0f) == 8.0f && exp10(2.0f) == 100.0f && log2(8.0f) == 3.0f && log10(1000.0f) == 3.0f",
  "sqrt(2.25f) == 1.5f && rsqrt(4.0f) == 0.5f && pow(2.0f, 10.0f) == 1024.0f && powr(2.0f, 0.5f) == sqrt(2.0f)",
  "floor(-x) == -2.0f && ceil(x) == 2.0f && trunc(-x) == -1.0f && round(2.5f) == 3.0f && rint(2.5f) == 2.0f && fract(x) == 0.5f",
  "fmod(-7.5f, 2.0f) == -1.5f && copysign(x, -1.0f) == -1.5f && fdim(3.0f, 1.0f) == 2.0f && ldexp(x, 3) == 12.0f && divide(3.0f, 2.0f) == x",
  "precise::exp(1.0f) == exp(1.0f) && precise::sqrt(x) == sqrt(x) && precise::divide(x, 3.0f) == x / 3.0f && isnan(fast::tanh(100.0f)) && tanh(100.0f) == 1.0f",
  "abs(sin(M_PI_F / 6) - 0.5f) < 1e-6f && cospi(1.0f) == -1.0f && abs(tanh(0.5f) - 0.46211716f) < 1e-7f && atan2(1.0f, 1.0f) == M_PI_4_F",
  "all(exp(float2(0.0f, 1.0f)) == float2(1.0f, exp(1.0f))) && all(sqrt(half2(4.0h, 9.0h)) == half2(2.0h, 3.0h))",
  "dot(v, v) == 30.0f && length(float2(3, 4)) == 5.0f && distance(v, v + 1) == 2.0f && all(cross(float3(1, 0, 0), float3(0, 1, 0)) == float3(0, 0, 1))",
  "abs(normalize(float2(3, 4)).x - 0.6f) < 1e-7f && dot(half2(1.0h, 2.0h), half2(3.0h, 4.0h)) == 11.0h",
  "all((float2x2(float2(1, 2), float2(3, 4)) * float2(1, 1)) == float2(4, 6)) && transpose(float2x3(float3(1, 2, 3), float3(4, 5, 6)))[2].y == 6.0f",
  "numeric_limits<float>::max() == MAXFLOAT && numeric_limits<half>::max() == 65504.0h && numeric_limits<int>::lowest() == INT_MIN && numeric_limits<uint>::max() == UINT_MAX",
  // Program scope.
  "TABLE[n - 5] == 30 && HALF_OF_PI == M_PI_F / 2 && DOUBLED == 14 && outer::inner::answer() == 42 && IS_GIVEN && !IS_MISSING",
  "twice<int>(n) == 14 && Pair{1, 2}.sum() == 3 && shadowed(n) == 8 && lambda(n) == 21",
];

const library = openSource(
  "truths.metal",
  `#include <metal_stdlib>
#include <metal_math>
using namespace metal;
#define WIDTH(n) (2 * (n))
constant int TABLE[WIDTH(2)] = {10, 20, 30, 40};
constant constexpr float HALF_OF_PI = M_PI_F / 2;
constant int GIVEN [[function_constant(WIDTH(1) + 1)]];
constant int MISSING [[function_constant(9)]];
constant int DOUBLED = GIVEN * 2;
constant bool IS_GIVEN = is_function_constant_defined(GIVEN), IS_MISSING = is_function_constant_defined(MISSING);
namespace outer { namespace inner { inline int answer() { return 42; } } }
template <typename T> METAL_FUNC T twice(T x) { return x + x; }
struct Pair { int a, b; int sum() const thread { return a + b; } };
float4 swizzled(float4 v) { v.xw = float2(9.0f, 8.0f); return v; }
float indexed(float4 v, int i) { v[i] *= 10.0f; return v[i]; }
int shadowed(int n) { if (n == 7) { int n = 1; return 7 + n; } return 0; }
int lambda(int n) { auto f = [n](int k) { return k * n; }; return f(3); }
kernel void truths(device uint* out [[buffer(0)]], constant float& x [[buffer(1)]], constant int& n [[buffer(2)]], constant float4& v4 [[buffer(3)]]) {
  float4 v = v4;
${truths.map((e, i) => `  out[${i}] = (${e}) ? 1u : 2u;`).join("\n")}
}
`,
);

describe("expressions", async () => {
  const out = new Uint32Array(truths.length);
  const { error } = (await library).run({
    kernel: "truths",
    grid: [1],
    threads: [1],
    constants: [{ name: "GIVEN", type: "int", value: 7 }],
    buffers: { 0: out, 1: new Float32Array([1.5]), 2: new Int32Array([7]), 3: new Float32Array([1, 2, 3, 4]) },
  });
  test("run", () => expect(error).toBe(""));
  truths.forEach((expression, i) => test(expression, () => expect(out[i]).toBe(1)));
});

/** Code that must not compile, and the compiler's message. */
const errors: readonly [string, string, RegExp][] = [
  ["max of int and uint", "int i = 1; uint u = 2; out[0] = max(i, u);", /ambiguous/],
  ["min of half and float", "half h = 1.0h; float f = 2.0f; out[0] = min(h, f);", /ambiguous/],
  ["a vector converted to another", "float4 v = int4(1); out[0] = v.x;", /no viable conversion/],
  [
    "a vector as a condition",
    "float2 v = float2(1.0f); if (v > 0.0f) out[0] = 1.0f;",
    /not contextually convertible|no viable|not convertible/,
  ],
  [
    "a vector selects",
    "bool2 c = bool2(true); float2 v = c ? float2(1.0f) : float2(2.0f); out[0] = v.x;",
    /not contextually convertible|no viable|vector/,
  ],
  ["&& of float vectors", "float2 v = float2(1.0f); out[0] = all(v && v) ? 1.0f : 0.0f;", /&& acts on bool vectors/],
  ["float scalar to bfloat vector", "bfloat2 v = 1.5f; out[0] = float(v.x);", /no viable conversion/],
  [
    "bfloat vector times half",
    "bfloat2 v = bfloat2(1.0bf); half h = 1.0h; v = v * h; out[0] = float(v.x);",
    /invalid operands|no viable/,
  ],
  [
    "a swizzle with a component twice on the left",
    "float4 v = float4(0.0f); v.xx = float2(1.0f); out[0] = v.x;",
    /repeats a component/,
  ],
  ["a component that is not there", "float2 v = float2(0.0f); out[0] = v.z;", /no member named 'z'/],
  ["xyzw mixed with rgba", "float4 v = float4(0.0f); out[0] = v.xg.x;", /no member named 'xg'/],
  [
    "too few components",
    "float4 v = float4(1.0f, 2.0f); out[0] = v.x;",
    /no matching conversion|no matching constructor/,
  ],
  [
    "too many components",
    "float2 v = float2(1.0f, 2.0f, 3.0f); out[0] = v.x;",
    /no matching conversion|no matching constructor/,
  ],
  ["a function Metal does not have", "out[0] = log1p(1.0f);", /undeclared identifier 'log1p'/],
  ["the C library", "out[0] = expf(1.0f);", /undeclared identifier 'expf'/],
  ["as_type of another size", "out[0] = as_type<float>(ushort(1));", /same size/],
  ["simd_sum of a long", "out[0] = float(simd_sum(1L));", /deleted|ambiguous/],
  ["simd_shuffle of a bool", "out[0] = float(simd_shuffle(true, ushort(0)));", /deleted|ambiguous/],
  ["an array of a function constant's size", "float a[WIDTH]; a[0] = 1.0f; out[0] = a[0];", /variable length array/],
  [
    "a function constant as a template argument",
    "vec<float, WIDTH> v = 1.0f; out[0] = v[0];",
    /not a constant expression/,
  ],
  ["a matrix of doubles", "simdgroup_matrix<int, 8, 8> m; out[0] = 1.0f;", /float, half or bfloat/],
  [
    "reading an atomic directly",
    "device atomic_uint* a = (device atomic_uint*)out; uint x = *a; out[0] = float(x);",
    /no viable conversion/,
  ],
  ["a write through constant", "fixed[0] = 1.0f;", /const-qualified|read-only|not assignable/],
];

describe("refused by the run build", () => {
  for (const [name, body, says] of errors) {
    test(name, async () => {
      const source = `#include <metal_stdlib>
using namespace metal;
constant int WIDTH [[function_constant(0)]];
kernel void k(device float* out [[buffer(0)]], constant float* fixed [[buffer(1)]]) {
  ${body}
}
`;
      let message = "";
      try {
        await openSource("wrong.metal", source);
      } catch (error) {
        if (!(error instanceof CompileError)) throw error;
        message = error.message;
      }
      expect(message).toMatch(says);
      expect(message).toContain("wrong.metal:5:");
    });
  }
});
