// <metal_common>, <metal_integer>, <metal_relational>, <metal_geometric>.
#ifndef EMU_COMMON_H
#define EMU_COMMON_H

#include "math.h"

namespace emu {
template <class T> EMU_SHIM inline T max_of(T x, T y) {
  if constexpr (metal::is_floating_point<T>::value)
    return fmax_of(x, y);
  else
    return x < y ? y : x;
}
template <class T> EMU_SHIM inline T min_of(T x, T y) {
  if constexpr (metal::is_floating_point<T>::value)
    return fmin_of(x, y);
  else
    return y < x ? y : x;
}
template <class T> EMU_SHIM inline T max3_of(T x, T y, T z) { return max_of(x, max_of(y, z)); }
template <class T> EMU_SHIM inline T min3_of(T x, T y, T z) { return min_of(x, min_of(y, z)); }
template <class T> EMU_SHIM inline T median3_of(T x, T y, T z) { return max_of(min_of(x, y), min_of(max_of(x, y), z)); }
template <class T> EMU_SHIM inline T clamp_of(T x, T low, T high) { return min_of(max_of(x, low), high); }
template <class T> EMU_SHIM inline T abs_of(T x) {
  if constexpr (metal::is_floating_point<T>::value)
    return fabs_of(x);
  else
    return x < T(0) ? T(T(0) - x) : x;
}
template <class T> EMU_SHIM inline T mix_of(T x, T y, T a) { return x + (y - x) * a; }
template <class T> EMU_SHIM inline T saturate_of(T x) { return clamp_of(x, T(0), T(1)); }
template <class T> EMU_SHIM inline T sign_of(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? x : T(0); }
template <class T> EMU_SHIM inline T step_of(T edge, T x) { return x < edge ? T(0) : T(1); }
template <class T> EMU_SHIM inline T smoothstep_of(T a, T b, T x) {
  T t = clamp_of(T((x - a) / (b - a)), T(0), T(1));
  return t * t * (T(3) - T(2) * t);
}

template <class T> using wide = metal::conditional_t<metal::is_signed<T>::value, __int128, unsigned __int128>;
template <class T> EMU_SHIM inline T limited(wide<T> v) {
  constexpr int bits = int(sizeof(T)) * 8 - (metal::is_signed<T>::value ? 1 : 0);
  const wide<T> high = (wide<T>(1) << bits) - 1, low = metal::is_signed<T>::value ? -high - 1 : 0;
  return T(v > high ? high : v < low ? low : v);
}
template <class T> EMU_SHIM inline T addsat_of(T x, T y) { return limited<T>(wide<T>(x) + y); }
template <class T> EMU_SHIM inline T subsat_of(T x, T y) {
  return !metal::is_signed<T>::value && x < y ? T(0) : limited<T>(wide<T>(x) - wide<T>(y));
}
template <class T> EMU_SHIM inline T absdiff_of(T x, T y) { return T(x > y ? wide<T>(x) - y : wide<T>(y) - x); }
template <class T> EMU_SHIM inline T hadd_of(T x, T y) { return T((wide<T>(x) + y) >> 1); }
template <class T> EMU_SHIM inline T rhadd_of(T x, T y) { return T((wide<T>(x) + y + 1) >> 1); }
template <class T> EMU_SHIM inline T mulhi_of(T x, T y) { return T((wide<T>(x) * y) >> (8 * sizeof(T))); }
template <class T> EMU_SHIM inline T madhi_of(T a, T b, T c) { return T(mulhi_of(a, b) + c); }
template <class T> EMU_SHIM inline T madsat_of(T a, T b, T c) { return limited<T>(wide<T>(a) * b + c); }
template <class T> EMU_SHIM inline T popcount_of(T x) { return T(__builtin_popcountll(metal::make_unsigned_t<T>(x))); }
template <class T> EMU_SHIM inline T clz_of(T x) {
  return x == 0 ? T(8 * sizeof(T)) : T(__builtin_clzll(metal::make_unsigned_t<T>(x)) - (64 - 8 * int(sizeof(T))));
}
template <class T> EMU_SHIM inline T ctz_of(T x) {
  return x == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzll(metal::make_unsigned_t<T>(x)));
}
template <class T> EMU_SHIM inline T reverse_bits_of(T x) {
  return T(__builtin_bitreverse64(metal::make_unsigned_t<T>(x)) >> (64 - 8 * sizeof(T)));
}
template <class T> EMU_SHIM inline T rotate_of(T v, T i) {
  typedef metal::make_unsigned_t<T> U;
  const unsigned bits = 8 * sizeof(T), n = unsigned(i) & (bits - 1);
  return n == 0 ? v : T(U(U(v) << n) | U(U(v) >> (bits - n)));
}
template <class T> EMU_SHIM inline T extract(T x, uint offset, uint bits) {
  return bits == 0 ? T(0)
                   : T(T(metal::make_unsigned_t<T>(x) << (8 * sizeof(T) - offset - bits)) >> (8 * sizeof(T) - bits));
}
template <class T> EMU_SHIM inline T insert(T base, T in, uint offset, uint bits) {
  if (bits == 0) return base;
  const ulong mask = (bits >= 64 ? ~0ul : ((1ul << bits) - 1)) << offset;
  return T((ulong(base) & ~mask) | ((ulong(in) << offset) & mask));
}
}  // namespace emu

namespace metal {
EMU_REALS(EMU_S2, EMU_V2, max)
EMU_REALS(EMU_S2, EMU_V2, min) EMU_WHOLES(EMU_S2, EMU_V2, max) EMU_WHOLES(EMU_S2, EMU_V2, min)
    EMU_REALS(EMU_S3, EMU_V3, max3) EMU_REALS(EMU_S3, EMU_V3, min3) EMU_REALS(EMU_S3, EMU_V3, median3)
        EMU_WHOLES(EMU_S3, EMU_V3, max3) EMU_WHOLES(EMU_S3, EMU_V3, min3) EMU_WHOLES(EMU_S3, EMU_V3, median3)
            EMU_REALS(EMU_S3, EMU_V3, clamp) EMU_WHOLES(EMU_S3, EMU_V3, clamp) EMU_REALS(EMU_S1, EMU_V1, abs)
                EMU_WHOLES(EMU_S1, EMU_V1, abs) EMU_REALS(EMU_S3, EMU_V3, mix) EMU_REALS(EMU_S1, EMU_V1, saturate)
                    EMU_REALS(EMU_S1, EMU_V1, sign) EMU_REALS(EMU_S2, EMU_V2, step)
                        EMU_REALS(EMU_S3, EMU_V3, smoothstep) EMU_WHOLES(EMU_S2, EMU_V2, addsat)
                            EMU_WHOLES(EMU_S2, EMU_V2, subsat) EMU_WHOLES(EMU_S2, EMU_V2, absdiff)
                                EMU_WHOLES(EMU_S2, EMU_V2, hadd) EMU_WHOLES(EMU_S2, EMU_V2, rhadd)
                                    EMU_WHOLES(EMU_S2, EMU_V2, mulhi) EMU_WHOLES(EMU_S3, EMU_V3, madhi)
                                        EMU_WHOLES(EMU_S3, EMU_V3, madsat) EMU_WHOLES(EMU_S1, EMU_V1, popcount)
                                            EMU_WHOLES(EMU_S1, EMU_V1, clz) EMU_WHOLES(EMU_S1, EMU_V1, ctz)
                                                EMU_WHOLES(EMU_S1, EMU_V1, reverse_bits)
                                                    EMU_WHOLES(EMU_S2, EMU_V2, rotate)
#define EMU_BITS(name, T)                                                                               \
  EMU_SHIM inline T extract_bits(T x, uint offset, uint bits) { return emu::extract(x, offset, bits); } \
  EMU_SHIM inline T insert_bits(T base, T in, uint offset, uint bits) { return emu::insert(base, in, offset, bits); }
#define EMU_NONE(name, V, N, T)
                                                        EMU_WHOLES(EMU_BITS, EMU_NONE, bits)
#undef EMU_BITS
                                                            EMU_SHIM inline int mul24(int x, int y) {
  return int((long(x << 8 >> 8) * (y << 8 >> 8)));
}
EMU_SHIM inline uint mul24(uint x, uint y) { return (x & 0xffffff) * (y & 0xffffff); }
EMU_SHIM inline int mad24(int x, int y, int z) { return mul24(x, y) + z; }
EMU_SHIM inline uint mad24(uint x, uint y, uint z) { return mul24(x, y) + z; }
namespace precise {
EMU_SINGLES(EMU_S3, EMU_V3, clamp)
EMU_SINGLES(EMU_S1, EMU_V1, saturate) EMU_SINGLES(EMU_S2, EMU_V2, max) EMU_SINGLES(EMU_S2, EMU_V2, min)
}
namespace fast {
EMU_SINGLES(EMU_S3, EMU_V3, clamp)
EMU_SINGLES(EMU_S1, EMU_V1, saturate) EMU_SINGLES(EMU_S2, EMU_V2, max) EMU_SINGLES(EMU_S2, EMU_V2, min)
}

#define EMU_TEST_S(name, T) \
  EMU_SHIM inline bool name(T x) { return emu::name##_of(x); }
#define EMU_TEST_V(name, V, N, T)                               \
  EMU_SHIM inline bool##N name(V x) {                           \
    bool##N r;                                                  \
    for (int i = 0; i < N; ++i) r[i] = emu::name##_of(T(x[i])); \
    return r;                                                   \
  }
#define EMU_TEST(name) \
  EMU_REALS(EMU_TEST_S, EMU_TEST_V, name) EMU_TEST_S(name, bfloat) EMU_SIZES(EMU_TEST_V, name, bfloat)
}  // namespace metal
namespace emu {
template <class T> EMU_SHIM inline bool isnan_of(T x) { return __builtin_isnan(float(x)); }
template <class T> EMU_SHIM inline bool isinf_of(T x) { return __builtin_isinf(float(x)); }
template <class T> EMU_SHIM inline bool isfinite_of(T x) { return __builtin_isfinite(float(x)); }
template <class T> EMU_SHIM inline bool signbit_of(T x) { return __builtin_signbit(float(x)) != 0; }
EMU_SHIM inline bool isnormal_of(float x) { return __builtin_isnormal(x); }
EMU_SHIM inline bool isnormal_of(bfloat x) { return __builtin_isnormal(float(x)); }
EMU_SHIM inline bool isnormal_of(half x) {
  return __builtin_isfinite(float(x)) && __builtin_fabsf(float(x)) >= 0x1p-14f;
}
}  // namespace emu
namespace metal {
EMU_TEST(isnan)
EMU_TEST(isinf) EMU_TEST(isfinite) EMU_TEST(isnormal) EMU_TEST(signbit)
#undef EMU_TEST
#undef EMU_TEST_S
#undef EMU_TEST_V

#ifndef EMU_TYPED
    EMU_SHIM inline bool all(bool x) {
  return x;
}
EMU_SHIM inline bool any(bool x) { return x; }
#define EMU_ANY_OF(name, V, N, T)                    \
  EMU_SHIM inline bool all(V x) {                    \
    bool r = true;                                   \
    for (int i = 0; i < N; ++i) r = r && bool(x[i]); \
    return r;                                        \
  }                                                  \
  EMU_SHIM inline bool any(V x) {                    \
    bool r = false;                                  \
    for (int i = 0; i < N; ++i) r = r || bool(x[i]); \
    return r;                                        \
  }
EMU_SIZES(EMU_ANY_OF, any, bool)
#undef EMU_ANY_OF
#define EMU_SELECT_S(name, T) \
  EMU_SHIM inline T select(T a, T b, bool c) { return c ? b : a; }
#define EMU_SELECT_V(name, V, N, T)                              \
  EMU_SHIM inline V select(V a, V b, bool##N c) {                \
    V r;                                                         \
    for (int i = 0; i < N; ++i) r[i] = bool(c[i]) ? b[i] : a[i]; \
    return r;                                                    \
  }
EMU_REALS(EMU_SELECT_S, EMU_SELECT_V, select)
EMU_WHOLES(EMU_SELECT_S, EMU_SELECT_V, select) EMU_SELECT_S(select, bfloat) EMU_SELECT_S(select, bool)
    EMU_SIZES(EMU_SELECT_V, select, bfloat) EMU_SIZES(EMU_SELECT_V, select, bool)
#undef EMU_SELECT_S
#undef EMU_SELECT_V
#endif

#define EMU_DOT(name, V, N, T)                                                           \
  EMU_SHIM inline T dot(V x, V y) {                                                      \
    T r = x[0] * y[0];                                                                   \
    for (int i = 1; i < N; ++i) r += x[i] * y[i];                                        \
    return r;                                                                            \
  }                                                                                      \
  EMU_SHIM inline T length_squared(V x) { return dot(x, x); }                            \
  EMU_SHIM inline T length(V x) { return emu::sqrt_of(dot(x, x)); }                      \
  EMU_SHIM inline T distance_squared(V x, V y) { return dot(x - y, x - y); }             \
  EMU_SHIM inline T distance(V x, V y) { return length(x - y); }                         \
  EMU_SHIM inline V normalize(V x) { return x * emu::rsqrt_of(dot(x, x)); }              \
  EMU_SHIM inline V faceforward(V n, V i, V ref) { return dot(ref, i) < T(0) ? n : -n; } \
  EMU_SHIM inline V reflect(V i, V n) { return i - T(2) * dot(n, i) * n; }
        EMU_SIZES(EMU_DOT, dot, float) EMU_SIZES(EMU_DOT, dot, half)
#undef EMU_DOT
#define EMU_CROSS(V) \
  EMU_SHIM inline V cross(V a, V b) { return a.yzx * b.zxy - a.zxy * b.yzx; }
            EMU_CROSS(float3) EMU_CROSS(half3)
#undef EMU_CROSS
#undef EMU_NONE
}  // namespace metal

#endif
