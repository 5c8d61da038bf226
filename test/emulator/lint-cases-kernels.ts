/** Sources that break one rule each, of kernels and of the language: lint.test.ts runs them. */
import { kernel } from "./lint-cases.ts";

/** In the form of wrongTypes. */
export const wrongKernels: readonly [string, string, string][] = [
  // Kernels.
  [
    "kernel-name",
    "an instantiation without host_name",
    "template <typename T> kernel void k(device T* out [[buffer(0)]]) { out[0] = T(1); }\ntemplate kernel void k<float>(device float*);  //!\n",
  ],
  [
    "kernel-name",
    "a host_name twice",
    'template <typename T> kernel void k(device T* out [[buffer(0)]]) { out[0] = T(1); }\ntemplate [[host_name("a")]] kernel void k<float>(device float*);\ntemplate [[host_name("a")]] kernel void k<half>(device half*);  //!\n',
  ],
  [
    "kernel-name",
    "a kernel that calls a kernel",
    `kernel void a(device float* out [[buffer(0)]]) { out[0] = 1.0f; }\nkernel void b(device float* out [[buffer(0)]]) { a(out); }  //!\n`,
  ],
  [
    "kernel-name",
    "a kernel that returns a value",
    "kernel float k(device float* out [[buffer(0)]]) { return out[0]; }  //!\n",
  ],
  [
    "kernel-name",
    "an overloaded kernel",
    "kernel void k(device float* out [[buffer(0)]]) { out[0] = 1.0f; }\nkernel void k(device half* out [[buffer(0)]]) { out[0] = 1.0h; }  //!\n",
  ],
  [
    "kernel-name",
    "a template without instantiations",
    "template <typename T> kernel void k(device T* out [[buffer(0)]]) { out[0] = T(1); }  //!\n",
  ],
  ["argument-index", "no index", "kernel void k(device float* out) { out[0] = 1.0f; }  //!\n"],
  [
    "argument-index",
    "an index twice",
    "kernel void k(device float* a [[buffer(0)]],\n  device float* b [[buffer(0)]]) { a[0] = b[0]; }  //!\n",
  ],
  ["argument-index", "an index above 30", "kernel void k(device float* a [[buffer(31)]]) { a[0] = 1.0f; }  //!\n"],
  [
    "argument-index",
    "a threadgroup argument without an index",
    "kernel void k(device float* a [[buffer(0)]], threadgroup float* t, uint i [[thread_index_in_threadgroup]]) { t[i] = 1.0f; a[i] = t[i]; }  //!\n",
  ],
  [
    "builtin-type",
    "a float position",
    "kernel void k(device float* a [[buffer(0)]], float i [[thread_position_in_grid]]) { a[0] = i; }  //!\n",
  ],
  [
    "builtin-type",
    "positions of two and three components",
    "kernel void k(device float* a [[buffer(0)]], uint3 i [[thread_position_in_threadgroup]],\n  uint2 g [[threadgroup_position_in_grid]]) { a[i.x] = float(g.x); }  //!\n",
  ],
  [
    "builtin-type",
    "a uint lane and a ushort simdgroup",
    "kernel void k(device float* a [[buffer(0)]], uint l [[thread_index_in_simdgroup]],\n  ushort s [[simdgroup_index_in_threadgroup]]) { a[l] = float(s); }  //!\n",
  ],
  [
    "builtin-type",
    "a vector lane",
    "kernel void k(device float* a [[buffer(0)]], uint2 l [[thread_index_in_simdgroup]]) { a[l.x] = 1.0f; }  //!\n",
  ],
  [
    "builtin-type",
    "a ushort index next to a uint position",
    "kernel void k(device float* a [[buffer(0)]], uint3 p [[thread_position_in_threadgroup]],\n  ushort i [[thread_index_in_threadgroup]]) { a[p.x] = float(i); }  //!\n",
  ],
  [
    "argument-type",
    "a size_t in a structure",
    `struct Params { size_t n; };  //!\nkernel void k(device float* a [[buffer(0)]], constant Params& p [[buffer(1)]]) { a[p.n] = 1.0f; }\n`,
  ],
  [
    "argument-type",
    "a pointer to ptrdiff_t",
    "kernel void k(device float* a [[buffer(0)]], constant ptrdiff_t& n [[buffer(1)]]) { a[n] = 1.0f; }  //!\n",
  ],
  [
    "argument-type",
    "a derived structure",
    "struct Base { uint n; };\nstruct Params : Base { uint m; };  //!\nkernel void k(device float* a [[buffer(0)]], constant Params& p [[buffer(1)]]) { a[p.m] = 1.0f; }\n",
  ],
  [
    "shared-layout",
    "a float3 in a structure",
    "struct Params { float3 scale; };  //!\nkernel void k(device float* a [[buffer(0)]], constant Params& p [[buffer(1)]]) { a[0] = p.scale.x; }\n",
  ],
  [
    "shared-layout",
    "a bool in a structure",
    "struct Params { bool on; };  //!\nkernel void k(device float* a [[buffer(0)]], constant Params& p [[buffer(1)]]) { a[0] = p.on ? 1.0f : 0.0f; }\n",
  ],
  [
    "max-threads",
    "more threads than a group may have",
    "[[max_total_threads_per_threadgroup(2048)]] kernel void k(device float* a [[buffer(0)]]) { a[0] = 1.0f; }  //!\n",
  ],
  [
    "function-constant",
    "an index twice",
    `constant int A [[function_constant(3)]];\nconstant int B [[function_constant(3)]];  //!\n${kernel("out[i] = float(A + B);")}`,
  ],
  [
    "function-constant",
    "a structure",
    `struct S { int x; };\nconstant S A [[function_constant(0)]];  //!\n${kernel("out[i] = float(A.x);")}`,
  ],
  [
    "function-constant",
    "an index beyond 65535",
    `constant int A [[function_constant(70000)]];  //!\n${kernel("out[i] = float(A);")}`,
  ],
  // The language.
  ["language", "double", kernel("double d = 1.0f; out[i] = float(d);  //!")],
  ["language", "long long", kernel("long long d = 1; out[i] = float(d);  //!")],
  ["language", "goto", kernel("goto end;  //!\n  end: out[i] = 1.0f;")],
  ["language", "virtual", `struct S { virtual float f() { return 1.0f; } };  //!\n${kernel("out[i] = 1.0f;")}`],
  [
    "language",
    "a derived class",
    `struct A { float x; };\nstruct B : A { float y; };  //!\n${kernel("B b; b.x = 1.0f; out[i] = b.x;")}`,
  ],
  ["language", "new", kernel("thread float* p = new float(1.0f); out[i] = p[0];  //!")],
  [
    "language",
    "the standard library",
    `namespace std { inline float one() { return 1.0f; } }  //!\n${kernel("out[i] = 1.0f;")}`,
  ],
  ["cxx17", "if constexpr", kernel("if constexpr (sizeof(float) == 4) out[i] = 1.0f;  //!")],
  [
    "cxx17",
    "a structured binding",
    `struct P { float a, b; };\n${kernel("P p = {1.0f, 2.0f}; auto [x, y] = p; out[i] = x + y;  //!")}`,
  ],
  ["cxx17", "an if with an initialiser", kernel("if (float x = out[i]; x > 0.0f) out[i] = x;  //!")],
  [
    "cxx17",
    "a fold expression",
    `template <typename... T> float sum(T... x) { return (x + ...); }  //!\n${kernel("out[i] = sum(1.0f, 2.0f);")}`,
  ],
  [
    "function-pointer",
    "a function's pointer as a parameter",
    `float one() { return 1.0f; }\nfloat call(float (*f)()) { return f(); }  //!\n${kernel("out[i] = call(one);")}`,
  ],
  [
    "reserved-name",
    "a parameter called sampler",
    `float f(float sampler) { return sampler; }  //!\n${kernel("out[i] = f(1.0f);")}`,
  ],
  ["reserved-name", "a local called texture2d", kernel("float texture2d = 1.0f; out[i] = texture2d;  //!")],
  ["literal-suffix", "a literal without a suffix", kernel("out[i] = 0.5;  //!")],
  [
    "narrow-counter",
    "a short counter up to a runtime size",
    "kernel void k(device float* a [[buffer(0)]], constant int& n [[buffer(1)]]) {\n  for (short t = 0; t < n; ++t) a[t] = 1.0f;  //!\n}\n",
  ],
  ["gpu-family", "a function of the M2", kernel("out[i] = simd_shuffle_and_fill_down(1.0f, 2.0f, ushort(1));  //!")],
  [
    "memory-order",
    "an acquire",
    kernel(
      "device atomic_uint* a = (device atomic_uint*)out; out[1] = float(atomic_load_explicit(a, memory_order_acquire));  //!",
    ),
  ],
  [
    "memory-order",
    "a sequentially consistent atomic",
    kernel(
      "device atomic_uint* a = (device atomic_uint*)out; atomic_store_explicit(a, 1u, memory_order_seq_cst);  //!",
    ),
  ],
  [
    "coherent",
    "a device fence without coherent arguments",
    "kernel void k(device atomic_uint* n [[buffer(0)]], device float* a [[buffer(1)]]) {  //!\n  a[0] = 1.0f;\n  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);\n  atomic_store_explicit(n, 1u, memory_order_relaxed);\n}\n",
  ],
];
