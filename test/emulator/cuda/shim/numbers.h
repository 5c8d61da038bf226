// Metal's scalar types for CUDA: half and bfloat, whose every operation rounds once: float arithmetic followed by one
// conversion gives that (float has more than twice their digits). No CUDA header is needed.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;

#define METAL_FUNC __forceinline__
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#define MAXFLOAT 0x1.fffffep127f
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define M_PI_F 3.14159265358979323846f
#define M_LN2_F 0.693147180559945309417f
#define M_LOG2E_F 1.44269504088896340736f

__forceinline__ ushort emu_narrow_half(float x) {
  ushort bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__forceinline__ float emu_widen_half(ushort bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__forceinline__ ushort emu_narrow_bfloat(float x) {
  ushort bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__forceinline__ float emu_widen_bfloat(ushort bits) { return __uint_as_float(uint(bits) << 16); }

// Combined with a float they give a float, with an integer their own type.
#define EMU_MIXED(name, op)                                                                            \
  __forceinline__ friend name operator op(name a, name b) { return name(float(a) op float(b)); }       \
  __forceinline__ friend float operator op(name a, float b) { return float(a) op b; }                  \
  __forceinline__ friend float operator op(float a, name b) { return a op float(b); }                  \
  __forceinline__ friend name operator op(name a, int b) { return name(float(a) op float(name(b))); }  \
  __forceinline__ friend name operator op(int a, name b) { return name(float(name(a)) op float(b)); }  \
  __forceinline__ friend name operator op(name a, uint b) { return name(float(a) op float(name(b))); } \
  __forceinline__ friend name operator op(uint a, name b) { return name(float(name(a)) op float(b)); }
#define EMU_SMALL(name)                                                                                      \
  struct name {                                                                                              \
    ushort bits;                                                                                             \
    name() = default;                                                                                        \
    template <class T> __forceinline__ name(T x) : bits(emu_narrow_##name(float(x))) {}                      \
    __forceinline__ operator float() const { return emu_widen_##name(bits); }                                \
    __forceinline__ name &operator+=(name o) { return *this = name(float(*this) + float(o)); }               \
    __forceinline__ name &operator-=(name o) { return *this = name(float(*this) - float(o)); }               \
    __forceinline__ name &operator*=(name o) { return *this = name(float(*this) * float(o)); }               \
    __forceinline__ name &operator/=(name o) { return *this = name(float(*this) / float(o)); }               \
    EMU_MIXED(name, +)                                                                                       \
    EMU_MIXED(name, -) EMU_MIXED(name, *) EMU_MIXED(name, /) __forceinline__ friend name operator-(name a) { \
      return name(-float(a));                                                                                \
    }                                                                                                        \
  };
EMU_SMALL(half)
EMU_SMALL(bfloat)
#undef EMU_SMALL
#undef EMU_MIXED

template <class D, class S> __forceinline__ D as_type(S value) {
  static_assert(sizeof(D) == sizeof(S), "as_type needs types of the same size");
  D out;
  memcpy(&out, &value, sizeof out);
  return out;
}
