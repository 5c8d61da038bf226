// <metal_matrix>: floatCxR and halfCxR, C columns of R components.
#ifndef EMU_MATRIX_H
#define EMU_MATRIX_H

#include "common.h"

namespace metal {
template <class T, int C, int R> struct matrix {
  vec<T, R> columns[C];
  matrix() = default;
  EMU_SHIM explicit matrix(T diagonal) {
    for (int c = 0; c < C; ++c) {
      columns[c] = vec<T, R>(T(0));
      if (c < R) columns[c][c] = diagonal;
    }
  }
  template <class... A, class = emu::enable_if_t<sizeof...(A) == C && (C > 1)>>
  EMU_SHIM matrix(A... a) : columns{vec<T, R>(a)...} {}
  template <class U, emu::enable_if_t<!is_same<U, T>::value, int> = 0>
  EMU_SHIM explicit matrix(const matrix<U, C, R> &o) {
    for (int c = 0; c < C; ++c) columns[c] = vec<T, R>(o.columns[c]);
  }
  EMU_SHIM vec<T, R> &operator[](int c) { return columns[c]; }
  EMU_SHIM const vec<T, R> &operator[](int c) const { return columns[c]; }
  EMU_SHIM matrix &operator+=(const matrix &o) { return *this = *this + o; }
  EMU_SHIM matrix &operator-=(const matrix &o) { return *this = *this - o; }
  EMU_SHIM matrix &operator*=(T s) { return *this = *this * s; }
  EMU_SHIM friend matrix operator+(matrix a, const matrix &b) {
    for (int c = 0; c < C; ++c) a.columns[c] = a.columns[c] + b.columns[c];
    return a;
  }
  EMU_SHIM friend matrix operator-(matrix a, const matrix &b) {
    for (int c = 0; c < C; ++c) a.columns[c] = a.columns[c] - b.columns[c];
    return a;
  }
  EMU_SHIM friend matrix operator*(matrix a, T s) {
    for (int c = 0; c < C; ++c) a.columns[c] = a.columns[c] * s;
    return a;
  }
  EMU_SHIM friend matrix operator*(T s, matrix a) { return a * s; }
  EMU_SHIM friend vec<T, R> operator*(const matrix &a, vec<T, C> v) {
    vec<T, R> r = a.columns[0] * v[0];
    for (int c = 1; c < C; ++c) r = r + a.columns[c] * v[c];
    return r;
  }
  EMU_SHIM friend vec<T, C> operator*(vec<T, R> v, const matrix &a) {
    vec<T, C> r;
    for (int c = 0; c < C; ++c) r[c] = dot(v, a.columns[c]);
    return r;
  }
};
template <class T, int C, int R, int K>
EMU_SHIM inline matrix<T, C, R> operator*(const matrix<T, K, R> &a, const matrix<T, C, K> &b) {
  matrix<T, C, R> r;
  for (int c = 0; c < C; ++c) r.columns[c] = a * b.columns[c];
  return r;
}
template <class T, int C, int R> EMU_SHIM inline matrix<T, R, C> transpose(const matrix<T, C, R> &a) {
  matrix<T, R, C> r;
  for (int c = 0; c < C; ++c)
    for (int i = 0; i < R; ++i) r.columns[i][c] = a.columns[c][i];
  return r;
}
}  // namespace metal
#define EMU_MATRIX(T, C)                   \
  typedef metal::matrix<T, C, 2> T##C##x2; \
  typedef metal::matrix<T, C, 3> T##C##x3; \
  typedef metal::matrix<T, C, 4> T##C##x4;
EMU_MATRIX(float, 2)
EMU_MATRIX(float, 3) EMU_MATRIX(float, 4) EMU_MATRIX(half, 2) EMU_MATRIX(half, 3) EMU_MATRIX(half, 4)
#undef EMU_MATRIX

#endif
