// <metal_simdgroup_matrix>: 8x8 matrices of float, half or bfloat spread over a simdgroup, two neighbouring elements of
// a row in each lane: row 4 (l / 16 % 2) + l / 2 % 4, column 4 (l / 8 % 2) + 2 (l % 2).
#ifndef EMU_SIMDGROUP_MATRIX_H
#define EMU_SIMDGROUP_MATRIX_H

#include "synchronisation.h"

namespace emu {
template <class T>
constexpr bool matrix_element = is_same<T, float>::value || is_same<T, half>::value || is_same<T, bfloat>::value;
template <class V> EMU_SHIM inline ulong pair_bits(V v) { return to_bits(v).low; }
}  // namespace emu

namespace metal {
template <class T, int Cols, int Rows = Cols> struct simdgroup_matrix {
  static_assert(Cols == 8 && Rows == 8, "simdgroup matrices are 8x8");
  static_assert(emu::matrix_element<T>, "simdgroup matrices hold float, half or bfloat");
  typedef vec<T, 2> storage_type;
  storage_type emu_pair;
  simdgroup_matrix() = default;
  // A diagonal matrix.
  EMU_SHIM explicit simdgroup_matrix(T diagonal) {
    const uint lane = emu_lane_index(), row = (lane >> 4 & 1) * 4 + (lane >> 1 & 3),
               column = (lane >> 3 & 1) * 4 + (lane & 1) * 2;
    emu_pair[0] = row == column ? diagonal : T(0);
    emu_pair[1] = row == column + 1 ? diagonal : T(0);
  }
  // Not in Apple's specification, but used by every library.
  EMU_SHIM storage_type &thread_elements() { return emu_pair; }
  EMU_SHIM const storage_type &thread_elements() const { return emu_pair; }
};

template <class T, int Cols, int Rows = Cols>
EMU_SHIM inline simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Cols, Rows> m;
  m.emu_pair[0] = value;
  m.emu_pair[1] = value;
  return m;
}

// matrix_origin is (column, row) of the element that becomes (0, 0).
#define EMU_MATRIX_MEMORY(SPACE)                                                                                       \
  template <class T, int C, int R>                                                                                     \
  EMU_SHIM inline void simdgroup_load(simdgroup_matrix<T, C, R> &d, const SPACE T *source, ulong elements_per_row = C, \
                                      ulong2 matrix_origin = ulong2(0), bool transpose_matrix = false,                 \
                                      emu_site at = emu_site::here()) {                                                \
    const void *p = (const void *)(source + (matrix_origin[0] + matrix_origin[1] * elements_per_row));                 \
    d.emu_pair = emu::from_bits<vec<T, 2>>(                                                                            \
        emu_matrix_load(at, p, elements_per_row, emu::kind_of<T>::value | (transpose_matrix ? 256u : 0u)));            \
  }                                                                                                                    \
  template <class T, int C, int R>                                                                                     \
  EMU_SHIM inline void simdgroup_store(simdgroup_matrix<T, C, R> a, SPACE T *target, ulong elements_per_row = C,       \
                                       ulong2 matrix_origin = ulong2(0), bool transpose_matrix = false,                \
                                       emu_site at = emu_site::here()) {                                               \
    void *p = (void *)(target + (matrix_origin[0] + matrix_origin[1] * elements_per_row));                             \
    emu_matrix_store(at, p, elements_per_row, emu::kind_of<T>::value | (transpose_matrix ? 256u : 0u),                 \
                     emu::pair_bits(a.emu_pair));                                                                      \
  }
EMU_SPACES(EMU_MATRIX_MEMORY)
#undef EMU_MATRIX_MEMORY

// Metal's documentation has references to non-const matrices; its compiler may accept more.
#ifdef EMU_TYPED
#define EMU_OPERAND &
#else
#define EMU_OPERAND
#endif
// d = a b + c. Apple's compiler also accepts operands of a narrower type than the sum's, though the specification
// shows only one type.
template <class D, class A, class B, class S>
EMU_SHIM inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8> &d,
                                                   simdgroup_matrix<A, 8, 8> EMU_OPERAND a,
                                                   simdgroup_matrix<B, 8, 8> EMU_OPERAND b,
                                                   simdgroup_matrix<S, 8, 8> EMU_OPERAND c,
                                                   emu_site at = emu_site::here()) {
  const emu_bits ab = {emu::pair_bits(a.emu_pair), emu::pair_bits(b.emu_pair)};
  const unsigned types = emu::kind_of<D>::value | emu::kind_of<A>::value << 8 | emu::kind_of<B>::value << 16 |
                         emu::kind_of<S>::value << 24;
  d.emu_pair = emu::from_bits<vec<D, 2>>(emu_bits{emu_matrix_multiply(at, types, ab, emu::pair_bits(c.emu_pair)), 0});
}
template <class D, class A, class B>
EMU_SHIM inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8> &d, simdgroup_matrix<A, 8, 8> EMU_OPERAND a,
                                        simdgroup_matrix<B, 8, 8> EMU_OPERAND b, emu_site at = emu_site::here()) {
  simdgroup_matrix<D, 8, 8> zero = make_filled_simdgroup_matrix<D, 8, 8>(D(0));
  simdgroup_multiply_accumulate(d, a, b, zero, at);
}
template <class T>
EMU_SHIM inline simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a, simdgroup_matrix<T, 8, 8> b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
}  // namespace metal

#endif
