// A matrix [rows, columns] as projection and embedding read it: of floats, or packed in blocks.
//
// The template parameter W says how it is stored. Floats of type W: contiguous, rows of `columns` elements. Packed: a separate
// type for each family of formats and number of bits (affine.h), or, where blocks hold all of their factors, for a family
// whose formats MATRIX_VARIANT tells apart (ggml.h). The type gives
//   MatrixRow<W>   a place in a row; matrix_place and matrix_move
//   Raw<W>         what memory holds of eight neighbouring elements: matrix_fetch; matrix_ready, then matrix_widen make elements of it
//   Words<W>       the same of 32: words_fetch, words_ready and words_widen, for packed_row.h
// Reading is in two steps, so that many reads are asked for before the first is used. weight_formats.h lists the packed W.
//
// Function constants: ALIGNED_ROWS (columns are a multiple of 8, and rows of x begin at multiples of 16 bytes),
// MATRIX_ALIGNMENT, MATRIX_SHIFT; for packed W MATRIX_GROUP, MATRIX_VARIANT, MATRIX_DTYPE, SCALES_SHIFT, BIASES_SHIFT.
#ifndef GATED_DELTA_SHADERS_MATRIX_H
#define GATED_DELTA_SHADERS_MATRIX_H

#include "storage.h"

// Whether W packs its elements.
template <typename W> struct IsPacked {
  enum : uint { value = 1 };
};
template <> struct IsPacked<float> {
  enum : uint { value = 0 };
};
template <> struct IsPacked<half> {
  enum : uint { value = 0 };
};
template <> struct IsPacked<bfloat> {
  enum : uint { value = 0 };
};

// Elements at .. at + 7; those from `columns` on are zeros.
struct Eight {
  float4 lower;
  float4 upper;
};

// For floats.
template <typename W> struct Raw {
  typename Vec4<W>::bits lower;
  typename Vec4<W>::bits upper;
};
template <typename W>
METAL_FUNC void raw_set(thread Raw<W>& raw, typename Vec4<W>::type lower, typename Vec4<W>::type upper) {
  raw.lower = as_type<typename Vec4<W>::bits>(lower);
  raw.upper = as_type<typename Vec4<W>::bits>(upper);
}

// A place in a row, a multiple of 8.
template <typename W> struct MatrixRow {
  device const W* row;
};

template <typename W>
METAL_FUNC void matrix_place(thread MatrixRow<W>& place, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, uint row, uint at, uint columns) {
  place.row = (device const W*)weight + (ulong(row) * columns + at);
}

// Moves a place on by a multiple of 256.
template <typename W> METAL_FUNC void matrix_move(thread MatrixRow<W>& place, uint by) { place.row += by; }

// The bits of element i after a place of floats.
template <typename W> METAL_FUNC typename Bits<W>::type matrix_bits(device const W* p, uint i) {
  typedef typename Bits<W>::type U;
  device const U* unit = (device const U*)p + i;
  if (MATRIX_SHIFT == 0) return unit[0];
  return U(unit[0] >> (8 * MATRIX_SHIFT) | unit[1] << (8 * (sizeof(U) - MATRIX_SHIFT)));
}
template <typename W> METAL_FUNC W matrix_element(device const W* p, uint i) { return as_type<W>(matrix_bits(p, i)); }

template <typename W> METAL_FUNC typename Vec4<W>::type matrix_four(device const W* p) {
  typedef typename Vec4<W>::type W4;
  typedef typename Vec4<W>::pair W2;
  if (MATRIX_SHIFT == 0 && 1u << MATRIX_ALIGNMENT >= sizeof(W4)) return *(device const W4*)p;
  if (MATRIX_SHIFT == 0 && 1u << MATRIX_ALIGNMENT >= sizeof(W2)) {
    return W4(((device const W2*)p)[0], ((device const W2*)p)[1]);
  }
  return W4(matrix_element(p, 0), matrix_element(p, 1), matrix_element(p, 2), matrix_element(p, 3));
}

// The eight elements `ahead` of a place, a multiple of 256; their column is `at`, below `columns`.
template <typename W>
METAL_FUNC void matrix_fetch(thread Raw<W>& raw, thread const MatrixRow<W>& from, uint ahead, uint at, uint columns) {
  typedef typename Vec4<W>::type W4;
  if (ALIGNED_ROWS) {
    raw_set<W>(raw, matrix_four(from.row + ahead), matrix_four(from.row + ahead + 4));
    return;
  }
  W4 lower = W4(W(0.0f));
  W4 upper = W4(W(0.0f));
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < columns) lower[j] = matrix_element(from.row, ahead + j);
    if (at + 4 + j < columns) upper[j] = matrix_element(from.row, ahead + 4 + j);
  }
  raw_set<W>(raw, lower, upper);
}
// The same for a row of x, which may begin at any element.
template <typename T>
METAL_FUNC void row_fetch(thread Raw<T>& raw, thread const MatrixRow<T>& from, uint ahead, uint at, uint columns) {
  typedef typename Vec4<T>::type T4;
  if (ALIGNED_ROWS) {
    raw_set<T>(raw, *(device const T4*)(from.row + ahead), *(device const T4*)(from.row + ahead + 4));
    return;
  }
  T4 lower = T4(T(0.0f));
  T4 upper = T4(T(0.0f));
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < columns) lower[j] = from.row[ahead + j];
    if (at + 4 + j < columns) upper[j] = from.row[ahead + 4 + j];
  }
  raw_set<T>(raw, lower, upper);
}
template <typename W> METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<W>& raw, uint unit) {
  v.lower = Vec4<W>::widen(as_type<typename Vec4<W>::type>(raw.lower));
  v.upper = Vec4<W>::widen(as_type<typename Vec4<W>::type>(raw.upper));
}

// Computes the factors that the eight share, once the reads have completed: called before matrix_widen.
template <typename W> METAL_FUNC void matrix_ready(thread Raw<W>&) {}

// 32 neighbouring elements of a packed W; words_ready computes what they share, once the reads have completed.
template <typename W> struct Words;
template <typename W> METAL_FUNC void words_ready(thread Words<W>&, thread const MatrixRow<W>&, uint) {}

#include "affine.h"
#include "ggml.h"
#include "micro.h"

METAL_FUNC float chain4(float sum, float4 a, float4 b) {
  sum = fma(a.x, b.x, sum);
  sum = fma(a.y, b.y, sum);
  sum = fma(a.z, b.z, sum);
  return fma(a.w, b.w, sum);
}

// Past the last column nothing is added: a product with padding would make NaN of an infinite neighbour.
METAL_FUNC float chain8(float sum, thread const Eight& a, thread const Eight& b, uint at, uint columns) {
  if (ALIGNED_ROWS || at + 8 <= columns) return chain4(chain4(sum, a.lower, b.lower), a.upper, b.upper);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) sum = at + j < columns ? fma(a.lower[j], b.lower[j], sum) : sum;
  GDM_UNROLL for (uint j = 0; j < 4; ++j) sum = at + 4 + j < columns ? fma(a.upper[j], b.upper[j], sum) : sum;
  return sum;
}

// The sum of an output's chains, in ascending order from 0.
METAL_FUNC float chains_sum(threadgroup const float4* chains) {
  float total = 0.0f;
  GDM_UNROLL for (uint i = 0; i < GDM_SIMD_LANES / 4; ++i) {
    float4 v = chains[i];
    total = (((total + v.x) + v.y) + v.z) + v.w;
  }
  return total;
}

// One output and what is added to it, in float32, rounded once; `at` is its place. GDM_RESIDUAL_*; `residual`
// [rows, outputs] with a row stride, or out itself, which is not bound twice.
template <typename T>
METAL_FUNC void project_store(device T* out, device const T* residual, constant GDMProject& params, ulong at, uint row,
                              uint output, float total) {
  if (params.residual == GDM_RESIDUAL_OUT) {
    total = total + read_wide((device const T*)out, at, OUT_F32);
  } else if (params.residual != GDM_RESIDUAL_NONE) {
    total = total + read_wide(residual, ulong(row) * params.residualRowStride + output,
                              params.residual == GDM_RESIDUAL_F32);
  }
  write_wide(out, at, total, OUT_F32);
}

#endif
