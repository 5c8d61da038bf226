// Mathematical functions: computed in double and rounded once, within Metal's promises for its precise
// variants.
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

enum {
#define EMU_FUNCTION_1(name, value) function_##name,
#define EMU_FUNCTION_2(name, value) function_##name,
#include "../shim/math_functions.inc"
#undef EMU_FUNCTION_1
#undef EMU_FUNCTION_2
};

/// fmod, from the rounded remainder: libm's fmod got a new symbol version that older systems lack.
double truncated_remainder(double x, double y) {
  const double r = std::remainder(x, y);
  return r != 0 && (r < 0) != (x < 0) ? (x < 0 ? r - std::fabs(y) : r + std::fabs(y)) : std::copysign(r, x);
}

}  // namespace

extern "C" {

float emu_math_1(unsigned function, float argument) {
  const double x = argument;
  switch (function) {
#define EMU_FUNCTION_1(name, value) \
  case function_##name: return float(value);
#define EMU_FUNCTION_2(name, value)
#include "../shim/math_functions.inc"
#undef EMU_FUNCTION_1
#undef EMU_FUNCTION_2
    default: return NAN;
  }
}

float emu_math_2(unsigned function, float first, float second) {
  const double x = first, y = second;
  switch (function) {
#define EMU_FUNCTION_1(name, value)
#define EMU_FUNCTION_2(name, value) \
  case function_##name: return float(value);
#include "../shim/math_functions.inc"
#undef EMU_FUNCTION_1
#undef EMU_FUNCTION_2
    default: return NAN;
  }
}

#if defined(__x86_64__)
// The compiler's call for float to bfloat, which its own library has and libgcc may not: round to nearest, ties to
// even.
__bf16 __truncsfbf2(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    bits |= 0x00400000u;
  else
    bits += 0x7fffu + (bits >> 16 & 1);
  const uint16_t upper = uint16_t(bits >> 16);
  __bf16 out;
  memcpy(&out, &upper, sizeof out);
  return out;
}
__bf16 __truncdfbf2(double value) {
  // To odd first, so that the second rounding cannot undo the first.
  float single = float(value);
  if (std::isfinite(value) && double(single) != value) {
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if ((std::fabs(double(single)) > std::fabs(value)) && (bits & 0x7fffffffu) != 0) --bits;
    bits |= 1;
    memcpy(&single, &bits, sizeof single);
  }
  return __truncsfbf2(single);
}
#endif

}  // extern "C"
