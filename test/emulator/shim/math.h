// <metal_math>: half and float only, as in Metal. log1p, expm1, erf, cbrt and hypot are missing here because Metal
// does not have them. A bfloat argument converts to float and gives a float.
#ifndef EMU_MATH_H
#define EMU_MATH_H

#include "calls.h"
#include "lists.h"

enum emu_function {
#define EMU_FUNCTION_1(name, value) EMU_FUNCTION_##name,
#define EMU_FUNCTION_2(name, value) EMU_FUNCTION_##name,
#include "math_functions.inc"
#undef EMU_FUNCTION_1
#undef EMU_FUNCTION_2
  EMU_FUNCTIONS
};

namespace emu {
#define EMU_FUNCTION_1(name, value)                                                       \
  EMU_SHIM inline float name##_of(float x) { return emu_math_1(EMU_FUNCTION_##name, x); } \
  EMU_SHIM inline half name##_of(half x) { return half(name##_of(float(x))); }
#define EMU_FUNCTION_2(name, value)                                                                   \
  EMU_SHIM inline float name##_of(float x, float y) { return emu_math_2(EMU_FUNCTION_##name, x, y); } \
  EMU_SHIM inline half name##_of(half x, half y) { return half(name##_of(float(x), float(y))); }
#include "math_functions.inc"
#undef EMU_FUNCTION_1
#undef EMU_FUNCTION_2
#define EMU_INLINE_1(name, value)                            \
  EMU_SHIM inline float name##_of(float x) { return value; } \
  EMU_SHIM inline half name##_of(half x) { return half(name##_of(float(x))); }
EMU_INLINE_1(ceil, __builtin_ceilf(x))
EMU_INLINE_1(fabs, __builtin_fabsf(x))
EMU_INLINE_1(floor, __builtin_floorf(x))
EMU_INLINE_1(rint, __builtin_rintf(x))
EMU_INLINE_1(sqrt, __builtin_sqrtf(x))
EMU_INLINE_1(trunc, __builtin_truncf(x))
EMU_INLINE_1(fract, __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f))
#undef EMU_INLINE_1
template <class T> EMU_SHIM inline T copysign_of(T x, T y) { return T(__builtin_copysignf(float(x), float(y))); }
template <class T> EMU_SHIM inline T divide_of(T x, T y) { return x / y; }
template <class T> EMU_SHIM inline T fdim_of(T x, T y) { return x > y ? T(x - y) : x <= y ? T(0) : T(x - y); }
template <class T> EMU_SHIM inline T fmax_of(T x, T y) { return T(__builtin_fmaxf(float(x), float(y))); }
template <class T> EMU_SHIM inline T fmin_of(T x, T y) { return T(__builtin_fminf(float(x), float(y))); }
template <class T> EMU_SHIM inline T fmax3_of(T x, T y, T z) { return fmax_of(x, fmax_of(y, z)); }
template <class T> EMU_SHIM inline T fmin3_of(T x, T y, T z) { return fmin_of(x, fmin_of(y, z)); }
template <class T> EMU_SHIM inline T fmedian3_of(T x, T y, T z) {
  return fmax_of(fmin_of(x, y), fmin_of(fmax_of(x, y), z));
}
// A single rounding, of the exact product and sum; for half, too (double holds them exactly except for the last step).
EMU_SHIM inline float fma_of(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
EMU_SHIM inline half fma_of(half x, half y, half z) { return half(__builtin_fma(double(x), double(y), double(z))); }
}  // namespace emu

namespace metal {
#define EMU_B1(name) \
  EMU_SHIM inline float name(bfloat x) { return emu::name##_of(float(x)); }
#define EMU_FUNCTION_1(name, value) EMU_REALS(EMU_S1, EMU_V1, name) EMU_B1(name)
#define EMU_FUNCTION_2(name, value) EMU_REALS(EMU_S2, EMU_V2, name)
#include "math_functions.inc"
EMU_FUNCTION_1(ceil, )
EMU_FUNCTION_1(fabs, ) EMU_FUNCTION_1(floor, ) EMU_FUNCTION_1(rint, ) EMU_FUNCTION_1(sqrt, ) EMU_FUNCTION_1(trunc, )
    EMU_FUNCTION_1(fract, ) EMU_FUNCTION_2(copysign, ) EMU_FUNCTION_2(divide, ) EMU_FUNCTION_2(fdim, )
        EMU_FUNCTION_2(fmax, ) EMU_FUNCTION_2(fmin, ) EMU_REALS(EMU_S3, EMU_V3, fmax3) EMU_REALS(EMU_S3, EMU_V3, fmin3)
            EMU_REALS(EMU_S3, EMU_V3, fmedian3) EMU_REALS(EMU_S3, EMU_V3, fma)
#undef EMU_FUNCTION_1
#undef EMU_FUNCTION_2
#undef EMU_B1

                EMU_SHIM inline float ldexp(float x, int k) {
  return __builtin_ldexpf(x, k);
}
EMU_SHIM inline half ldexp(half x, int k) { return half(__builtin_ldexpf(float(x), k)); }
EMU_SHIM inline int ilogb(float x) { return __builtin_ilogbf(x); }
EMU_SHIM inline float frexp(float x, int &exponent) {
  int e = 0;
  float m = __builtin_frexpf(x, &e);
  exponent = e;
  return m;
}
EMU_SHIM inline float modf(float x, float &whole) {
  whole = __builtin_truncf(x);
  return __builtin_isinf(x) ? __builtin_copysignf(0.0f, x) : __builtin_copysignf(x - whole, x);
}
EMU_SHIM inline float sincos(float x, float &cosine) {
  cosine = emu::cos_of(x);
  return emu::sin_of(x);
}

// precise:: and fast:: exist for float. Here, the fast ones are as exact as the precise ones, except tanh, whose overflow to NaN is kept.
#define EMU_FUNCTION_1(name, value) EMU_SINGLES(EMU_S1, EMU_V1, name)
#define EMU_FUNCTION_2(name, value) EMU_SINGLES(EMU_S2, EMU_V2, name)
#define EMU_VARIANT                                                                                                    \
  EMU_FUNCTION_1(acos, )                                                                                               \
  EMU_FUNCTION_1(acosh, ) EMU_FUNCTION_1(asin, ) EMU_FUNCTION_1(asinh, ) EMU_FUNCTION_1(atan, )                        \
      EMU_FUNCTION_1(atanh, ) EMU_FUNCTION_1(ceil, ) EMU_FUNCTION_1(cos, ) EMU_FUNCTION_1(cosh, )                      \
          EMU_FUNCTION_1(cospi, ) EMU_FUNCTION_1(exp, ) EMU_FUNCTION_1(exp2, ) EMU_FUNCTION_1(exp10, )                 \
              EMU_FUNCTION_1(fabs, ) EMU_FUNCTION_1(floor, ) EMU_FUNCTION_1(fract, ) EMU_FUNCTION_1(log, )             \
                  EMU_FUNCTION_1(log2, ) EMU_FUNCTION_1(log10, ) EMU_FUNCTION_1(rint, ) EMU_FUNCTION_1(round, )        \
                      EMU_FUNCTION_1(rsqrt, ) EMU_FUNCTION_1(sin, ) EMU_FUNCTION_1(sinh, ) EMU_FUNCTION_1(sinpi, )     \
                          EMU_FUNCTION_1(sqrt, ) EMU_FUNCTION_1(tan, ) EMU_FUNCTION_1(tanpi, ) EMU_FUNCTION_1(trunc, ) \
                              EMU_FUNCTION_2(atan2, ) EMU_FUNCTION_2(copysign, ) EMU_FUNCTION_2(divide, )              \
                                  EMU_FUNCTION_2(fdim, ) EMU_FUNCTION_2(fmax, ) EMU_FUNCTION_2(fmin, )                 \
                                      EMU_FUNCTION_2(fmod, ) EMU_FUNCTION_2(pow, ) EMU_FUNCTION_2(powr, )              \
                                          EMU_SINGLES(EMU_S3, EMU_V3, fma)
namespace precise {
EMU_VARIANT
EMU_FUNCTION_1(tanh, )
}  // namespace precise
namespace fast {
EMU_VARIANT
EMU_SHIM inline float tanh(float x) {
  float t = emu::exp_of(2.0f * x);
  return (t - 1.0f) / (t + 1.0f);
}
#define EMU_TANH(name, V, N, T)                       \
  EMU_SHIM inline V tanh(V x) {                       \
    V r;                                              \
    for (int i = 0; i < N; ++i) r[i] = tanh(T(x[i])); \
    return r;                                         \
  }
EMU_SIZES(EMU_TANH, tanh, float)
#undef EMU_TANH
}  // namespace fast
#undef EMU_VARIANT
#undef EMU_FUNCTION_1
#undef EMU_FUNCTION_2
}  // namespace metal

#endif
