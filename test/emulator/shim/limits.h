// <metal_limits>: numeric_limits.
#ifndef EMU_LIMITS_H
#define EMU_LIMITS_H

#include "traits.h"

namespace metal {
template <class T> struct numeric_limits {
  static constexpr bool is_specialized = is_integral<T>::value, is_integer = is_specialized, is_signed = __is_signed(T);
  static constexpr bool has_infinity = false, has_quiet_NaN = false;
  static constexpr int digits = int(sizeof(T)) * 8 - (is_signed ? 1 : 0);
  static constexpr T max() { return T(~0ul >> (64 - digits)); }
  static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
  static constexpr T lowest() { return min(); }
};
template <> struct numeric_limits<bool> {
  static constexpr bool is_specialized = true, is_integer = true, is_signed = false;
  static constexpr bool max() { return true; }
  static constexpr bool min() { return false; }
  static constexpr bool lowest() { return false; }
};
#define EMU_FLOATING(T, MAX, MIN, EPSILON, DIGITS, DENORM)                             \
  template <> struct numeric_limits<T> {                                               \
    static constexpr bool is_specialized = true, is_integer = false, is_signed = true; \
    static constexpr bool has_infinity = true, has_quiet_NaN = true;                   \
    static constexpr int digits = DIGITS;                                              \
    static constexpr T max() { return T(MAX); }                                        \
    static constexpr T lowest() { return T(-MAX); }                                    \
    static constexpr T min() { return T(MIN); }                                        \
    static constexpr T epsilon() { return T(EPSILON); }                                \
    static constexpr T denorm_min() { return T(DENORM); }                              \
    static constexpr T infinity() { return T(__builtin_inff()); }                      \
    static constexpr T quiet_NaN() { return T(__builtin_nanf("")); }                   \
  };
EMU_FLOATING(float, 0x1.fffffep127f, 0x1p-126f, 0x1p-23f, 24, 0x1p-149f)
EMU_FLOATING(half, 65504.0f, 0x1p-14f, 0x1p-10f, 11, 0x1p-24f)
EMU_FLOATING(bfloat, 0x1.fep127f, 0x1p-126f, 0x1p-7f, 8, 0x1p-133f)
#undef EMU_FLOATING
}  // namespace metal

#endif
