// <metal_simdgroup>, <metal_quadgroup>. Any integer or floating-point scalar or vector except bool, long and ulong (the
// quad functions take the 64-bit ones too). Every lane of the simdgroup that has not returned must reach the same
// call.
#ifndef EMU_SIMD_H
#define EMU_SIMD_H

#include "common.h"

namespace emu {
template <class T> struct kind_of;
template <> struct kind_of<float> {
  static constexpr unsigned value = EMU_FLOAT;
};
template <> struct kind_of<half> {
  static constexpr unsigned value = EMU_HALF;
};
template <> struct kind_of<bfloat> {
  static constexpr unsigned value = EMU_BFLOAT;
};
template <> struct kind_of<char> {
  static constexpr unsigned value = EMU_CHAR;
};
template <> struct kind_of<uchar> {
  static constexpr unsigned value = EMU_UCHAR;
};
template <> struct kind_of<short> {
  static constexpr unsigned value = EMU_SHORT;
};
template <> struct kind_of<ushort> {
  static constexpr unsigned value = EMU_USHORT;
};
template <> struct kind_of<int> {
  static constexpr unsigned value = EMU_INT;
};
template <> struct kind_of<uint> {
  static constexpr unsigned value = EMU_UINT;
};
template <> struct kind_of<long> {
  static constexpr unsigned value = EMU_LONG;
};
template <> struct kind_of<ulong> {
  static constexpr unsigned value = EMU_ULONG;
};

template <class V> EMU_SHIM inline emu_bits to_bits(V v) {
  emu_bits b = {0, 0};
  __builtin_memcpy(&b, &v, sizeof v);
  return b;
}
template <class V> EMU_SHIM inline V from_bits(emu_bits b) {
  V v;
  __builtin_memcpy(&v, &b, sizeof v);
  return v;
}
}  // namespace emu

namespace metal {
// M(type, element type, components) for the types that simdgroup functions accept, and for those that only quadgroup functions accept.
#define EMU_LANE_TYPE(M, T) M(T, T, 1) M(T##2, T, 2) M(T##3, T, 3) M(T##4, T, 4)
#define EMU_LANE_WHOLES(M)                                                                       \
  EMU_LANE_TYPE(M, char)                                                                         \
  EMU_LANE_TYPE(M, uchar) EMU_LANE_TYPE(M, short) EMU_LANE_TYPE(M, ushort) EMU_LANE_TYPE(M, int) \
      EMU_LANE_TYPE(M, uint)
#define EMU_LANE_REALS(M) EMU_LANE_TYPE(M, float) EMU_LANE_TYPE(M, half) EMU_LANE_TYPE(M, bfloat)
#define EMU_LANE_LONGS(M) M(long, long, 1) M(long2, long, 2) M(ulong, ulong, 1) M(ulong2, ulong, 2)

#define EMU_PERMUTE_ONE(V, group, name, kind)                                                        \
  EMU_SHIM inline V group##_##name(V value, ushort argument, emu_site at = emu_site::here()) {       \
    return emu::from_bits<V>(emu_simd_permute(at, kind | EMU_GROUP, emu::to_bits(value), argument)); \
  }
#define EMU_FILL_ONE(V, group, name, kind)                                                                            \
  EMU_SHIM inline V group##_shuffle_and_fill_##name(V value, V filling, ushort delta, ushort modulo = EMU_WIDTH,      \
                                                    emu_site at = emu_site::here()) {                                 \
    return emu::from_bits<V>(emu_simd_fill(at, kind | EMU_GROUP, emu::to_bits(value), delta | unsigned(modulo) << 16, \
                                           sizeof(V), emu::to_bits(filling)));                                        \
  }
#define EMU_PERMUTES_OF(V, group)                                                                               \
  EMU_PERMUTE_ONE(V, group, shuffle, EMU_SHUFFLE)                                                               \
  EMU_PERMUTE_ONE(V, group, shuffle_xor, EMU_SHUFFLE_XOR) EMU_PERMUTE_ONE(V, group, shuffle_up, EMU_SHUFFLE_UP) \
      EMU_PERMUTE_ONE(V, group, shuffle_down, EMU_SHUFFLE_DOWN)                                                 \
          EMU_PERMUTE_ONE(V, group, shuffle_rotate_up, EMU_ROTATE_UP)                                           \
              EMU_PERMUTE_ONE(V, group, shuffle_rotate_down, EMU_ROTATE_DOWN)                                   \
                  EMU_PERMUTE_ONE(V, group, broadcast, EMU_BROADCAST) EMU_FILL_ONE(V, group, up, EMU_FILL_UP)   \
                      EMU_FILL_ONE(V, group, down, EMU_FILL_DOWN) EMU_SHIM inline V                             \
                      group##_broadcast_first(V value, emu_site at = emu_site::here()) {                        \
    return emu::from_bits<V>(emu_simd_permute(at, EMU_BROADCAST_FIRST | EMU_GROUP, emu::to_bits(value), 0));    \
  }
#define EMU_REDUCE_ONE(V, T, N, group, name, kind)                                                    \
  EMU_SHIM inline V group##_##name(V value, emu_site at = emu_site::here()) {                         \
    return emu::from_bits<V>(                                                                         \
        emu_simd_reduce(at, kind | EMU_GROUP, emu::to_bits(value), emu::kind_of<T>::value | N << 8)); \
  }
#define EMU_REDUCES_OF(V, T, N, group)                                                              \
  EMU_REDUCE_ONE(V, T, N, group, sum, EMU_SUM)                                                      \
  EMU_REDUCE_ONE(V, T, N, group, product, EMU_PRODUCT) EMU_REDUCE_ONE(V, T, N, group, min, EMU_MIN) \
      EMU_REDUCE_ONE(V, T, N, group, max, EMU_MAX)                                                  \
          EMU_REDUCE_ONE(V, T, N, group, prefix_inclusive_sum, EMU_INCLUSIVE_SUM)                   \
              EMU_REDUCE_ONE(V, T, N, group, prefix_exclusive_sum, EMU_EXCLUSIVE_SUM)               \
                  EMU_REDUCE_ONE(V, T, N, group, prefix_inclusive_product, EMU_INCLUSIVE_PRODUCT)   \
                      EMU_REDUCE_ONE(V, T, N, group, prefix_exclusive_product, EMU_EXCLUSIVE_PRODUCT)
#define EMU_BITWISE_OF(V, T, N, group)         \
  EMU_REDUCE_ONE(V, T, N, group, and, EMU_AND) \
  EMU_REDUCE_ONE(V, T, N, group, or, EMU_OR) EMU_REDUCE_ONE(V, T, N, group, xor, EMU_XOR)

#define EMU_WIDTH 32
#define EMU_GROUP EMU_SIMD
#define EMU_SIMD_REAL(V, T, N) EMU_PERMUTES_OF(V, simd) EMU_REDUCES_OF(V, T, N, simd)
#define EMU_SIMD_WHOLE(V, T, N) EMU_SIMD_REAL(V, T, N) EMU_BITWISE_OF(V, T, N, simd)
EMU_LANE_REALS(EMU_SIMD_REAL)
EMU_LANE_WHOLES(EMU_SIMD_WHOLE)
#undef EMU_GROUP
#undef EMU_WIDTH
#define EMU_WIDTH 4
#define EMU_GROUP EMU_QUAD
#define EMU_QUAD_REAL(V, T, N) EMU_PERMUTES_OF(V, quad) EMU_REDUCES_OF(V, T, N, quad)
#define EMU_QUAD_WHOLE(V, T, N) EMU_QUAD_REAL(V, T, N) EMU_BITWISE_OF(V, T, N, quad)
    EMU_LANE_REALS(EMU_QUAD_REAL) EMU_LANE_WHOLES(EMU_QUAD_WHOLE) EMU_LANE_LONGS(EMU_QUAD_WHOLE)
#undef EMU_GROUP
#undef EMU_WIDTH

// No simdgroup function accepts these; a conversion to an accepted type must not be found instead.
#define EMU_REFUSE(name)          \
  void name(bool, ...) = delete;  \
  void name(long, ...) = delete;  \
  void name(ulong, ...) = delete; \
  void name(bool2, ...) = delete; \
  void name(bool3, ...) = delete; \
  void name(bool4, ...) = delete;
        EMU_REFUSE(simd_sum) EMU_REFUSE(simd_product) EMU_REFUSE(simd_min) EMU_REFUSE(simd_max) EMU_REFUSE(simd_and)
            EMU_REFUSE(simd_or) EMU_REFUSE(simd_xor) EMU_REFUSE(simd_shuffle) EMU_REFUSE(simd_shuffle_xor)
                EMU_REFUSE(simd_shuffle_up) EMU_REFUSE(simd_shuffle_down) EMU_REFUSE(simd_broadcast)
                    EMU_REFUSE(simd_broadcast_first) EMU_REFUSE(simd_shuffle_rotate_up)
                        EMU_REFUSE(simd_shuffle_rotate_down) EMU_REFUSE(simd_prefix_inclusive_sum)
                            EMU_REFUSE(simd_prefix_exclusive_sum)
#undef EMU_REFUSE

    // Bit i is lane i's vote.
    class simd_vote {
 public:
  typedef ulong vote_t;
  EMU_SHIM explicit constexpr simd_vote(vote_t v = 0) : bits(v) {}
  EMU_SHIM explicit constexpr operator vote_t() const { return bits; }
  EMU_SHIM bool all() const { return (bits & 0xfffffffful) == 0xfffffffful; }
  EMU_SHIM bool any() const { return (bits & 0xfffffffful) != 0; }

 private:
  vote_t bits;
};
class quad_vote {
 public:
  typedef uint vote_t;
  EMU_SHIM explicit constexpr quad_vote(vote_t v = 0) : bits(v & 15) {}
  EMU_SHIM explicit constexpr operator vote_t() const { return bits; }
  EMU_SHIM bool all() const { return bits == 15; }
  EMU_SHIM bool any() const { return bits != 0; }

 private:
  vote_t bits;
};
#define EMU_VOTES_OF(group, flag)                                                            \
  EMU_SHIM inline group##_vote group##_ballot(bool x, emu_site at = emu_site::here()) {      \
    return group##_vote(group##_vote::vote_t(emu_simd_vote(at, EMU_BALLOT | flag, x)));      \
  }                                                                                          \
  EMU_SHIM inline group##_vote group##_active_threads_mask(emu_site at = emu_site::here()) { \
    return group##_vote(group##_vote::vote_t(emu_simd_vote(at, EMU_ACTIVE | flag, true)));   \
  }                                                                                          \
  EMU_SHIM inline bool group##_all(bool x, emu_site at = emu_site::here()) {                 \
    return emu_simd_vote(at, EMU_ALL | flag, x) != 0;                                        \
  }                                                                                          \
  EMU_SHIM inline bool group##_any(bool x, emu_site at = emu_site::here()) {                 \
    return emu_simd_vote(at, EMU_ANY | flag, x) != 0;                                        \
  }                                                                                          \
  EMU_SHIM inline bool group##_is_first(emu_site at = emu_site::here()) {                    \
    return emu_simd_vote(at, EMU_IS_FIRST | flag, true) != 0;                                \
  }
EMU_VOTES_OF(simd, EMU_SIMD)
EMU_VOTES_OF(quad, EMU_QUAD)
#undef EMU_VOTES_OF
}  // namespace metal

#endif
