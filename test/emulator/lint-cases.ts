/** Sources that break one rule each, of address spaces and types: lint.test.ts runs them. */

export const head = "#include <metal_stdlib>\nusing namespace metal;\n#pragma METAL fp contract(off)\n";

/** A kernel around some statements; `out` is device float*, `c` constant float*, `t` threadgroup float*, `i` uint. */
export const kernel = (body: string): string =>
  `kernel void k(device float* out [[buffer(0)]], constant float* c [[buffer(1)]], threadgroup float* t [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) {\n  ${body}\n}\n`;

/** Rule, mistake, and the source after the head. The line at fault contains "//!". */
export const wrongTypes: readonly [string, string, string][] = [
  // The typed compile.
  ["address-space", "a device pointer kept in a thread pointer", kernel("thread float* p = out; out[0] = p[0];  //!")],
  [
    "address-space",
    "a constant pointer kept in a device pointer",
    kernel("device const float* p = c; out[0] = p[0];  //!"),
  ],
  [
    "address-space",
    "a device pointer that a template takes as a thread pointer",
    `template <typename T> T first(thread T* p) { return p[0]; }  //!\n${kernel("out[0] = first(out);")}`,
  ],
  [
    "address-space",
    "a threadgroup element that a template takes as a thread reference",
    `template <typename T> void clear(thread T& x) { x = T(0); }  //!\n${kernel("clear(t[i]); out[0] = 1.0f;")}`,
  ],
  [
    "address-space",
    "a device element bound to a constant thread reference",
    `float twice(thread const float& x) { return 2.0f * x; }\n${kernel("out[0] = twice(out[1]);  //!")}`,
  ],
  [
    "address-space",
    "a constant structure bound to a constant thread reference",
    `struct P { float a; float b; };\nfloat sum(const thread P& p, float c) { return p.a + p.b + c; }\nkernel void k(device float* out [[buffer(0)]], constant P& p [[buffer(1)]]) {\n  out[0] = sum(p, 1.0f);  //!\n}\n`,
  ],
  [
    "address-space",
    "a device structure bound to a template's constant thread reference",
    `template <typename T> struct P { T a; };\ntemplate <typename T> T get(thread const P<T>& p) { return p.a; }\nkernel void k(device float* out [[buffer(0)]], device P<float>* p [[buffer(1)]]) {\n  out[0] = get(p[0]);  //!\n}\n`,
  ],
  [
    "address-space",
    "a device pointer passed as a threadgroup pointer",
    `float first(threadgroup const float* p) { return p[0]; }\n${kernel("out[0] = first(out);  //!")}`,
  ],
  [
    "address-space",
    "a reference into another space",
    `void add(threadgroup float& x) { x += 1.0f; }\n${kernel("add(out[i]);  //!")}`,
  ],
  [
    "address-space",
    "a template deduced for one space only",
    `template <typename T> T at(device const T* p, uint i) { return p[i]; }\n${kernel("out[i] = at(t, i);  //!")}`,
  ],
  [
    "address-space",
    "a return type of another space",
    `device float* from(threadgroup float* p) { return p; }  //!\n${kernel("out[i] = from(t)[0];")}`,
  ],
  [
    "address-space",
    "a load into a matrix from constant memory",
    kernel("simdgroup_float8x8 m; simdgroup_load(m, c); simdgroup_store(m, out);  //!"),
  ],
  [
    "address-space",
    "atomic_float in threadgroup memory",
    kernel(
      "threadgroup atomic_float x; atomic_fetch_add_explicit(&x, 1.0f, memory_order_relaxed); out[i] = 0.0f;  //!",
    ),
  ],
  ["type", "a write through constant", kernel("c[i] = 1.0f;  //!")],
  [
    "type",
    "a temporary matrix as an operand",
    kernel(
      "simdgroup_float8x8 m; simdgroup_load(m, out); simdgroup_multiply_accumulate(m, m, m, make_filled_simdgroup_matrix<float, 8, 8>(0.0f)); simdgroup_store(m, out);  //!",
    ),
  ],
  ["type", "half assigned a bfloat", kernel("half h = 1.0bf; out[i] = h;  //!")],
  ["bfloat-conversion", "float to bfloat without a cast", kernel("bfloat b = out[i]; out[i] = b;  //!")],
  [
    "bfloat-conversion",
    "half to bfloat in a return",
    `bfloat narrow(float x) { return x; }  //!\n${kernel("out[i] = narrow(out[i]);")}`,
  ],
  ["bfloat-conversion", "bfloat to int", kernel("int n = 1.5bf; out[i] = float(n);  //!")],
  [
    "constant-initializer",
    "a constant initialised by a function that is not constexpr",
    `float half_of(float x) { return x / 2.0f; }\nconstant float H = half_of(3.0f);  //!\n${kernel("out[i] = H;")}`,
  ],
  [
    "function-constant-bound",
    "an array of a function constant's size",
    `constant uint N [[function_constant(0)]];\n${kernel("float a[N]; a[0] = 1.0f; out[i] = a[0];  //!")}`,
  ],
  [
    "missing-return",
    "a function without its return",
    `float none(float x) {\n  if (x > 0.0f) return x;\n}  //!\n${kernel("out[i] = none(1.0f);")}`,
  ],
  ["shift-count", "a shift as wide as its type", kernel("out[i] = float(1u << 32);  //!")],
  ["uninitialized", "a variable used before it has a value", kernel("float x; out[i] = x;  //!")],
  ["type", "max of int and uint", kernel("int a = 1; uint b = 2; out[i] = float(max(a, b));  //!")],
  [
    "type",
    "a function constant as a template argument",
    `constant uint N [[function_constant(0)]];\ntemplate <uint M> float f() { return float(M); }\n${kernel("out[i] = f<N>();  //!")}`,
  ],
  // Missing address spaces that C++ cannot detect.
  [
    "address-space-missing",
    "a parameter",
    `float first(float* p) { return p[0]; }  //!\n${kernel("float a[1] = {1.0f}; out[i] = first(a);")}`,
  ],
  [
    "address-space-missing",
    "a reference parameter",
    `template <typename T> void twice(T& x) { x += x; }  //!\n${kernel("float a = 1.0f; twice(a); out[i] = a;")}`,
  ],
  ["address-space-missing", "a local pointer", kernel("float a[2] = {1.0f, 2.0f}; float* p = a; out[i] = p[i];  //!")],
  ["address-space-missing", "a cast", kernel("out[i] = *(float*)(out + i);  //!")],
  ["address-space-missing", "a reinterpret_cast", kernel("out[i] = float(reinterpret_cast<const uint*>(c)[i]);  //!")],
  ["address-space-missing", "a member", `struct Holder { float* p; };  //!\n${kernel("out[i] = 1.0f;")}`],
  ["address-space-missing", "a typedef", `typedef float* pointer;  //!\n${kernel("out[i] = 1.0f;")}`],
  [
    "address-space-missing",
    "a return type",
    `float* pick(thread float* a) { return a; }  //!\n${kernel("out[i] = 1.0f;")}`,
  ],
  ["address-space-cast", "a cast that changes the space", kernel("out[i] = ((threadgroup float*)out)[i];  //!")],
  [
    "threadgroup-variable",
    "in a helper",
    `void helper(uint i) {\n  threadgroup float s[4];  //!\n  s[i] = 1.0f;\n}\n${kernel("helper(i); out[i] = 1.0f;")}`,
  ],
  [
    "threadgroup-variable",
    "in a block",
    kernel("if (i < 4) {\n    threadgroup float s[4];  //!\n    s[i] = 1.0f;\n  }\n  out[i] = 1.0f;"),
  ],
  ["threadgroup-variable", "with an initialiser", kernel("threadgroup float s = 0.0f; out[i] = s;  //!")],
  ["program-scope-variable", "not constant", `float g = 1.0f;  //!\n${kernel("out[i] = g;")}`],
  ["program-scope-variable", "constant without an initialiser", `constant float g;  //!\n${kernel("out[i] = g;")}`],
  ["static-local", "a static local", kernel("static constant float s = 1.0f; out[i] = s;  //!")],
];
