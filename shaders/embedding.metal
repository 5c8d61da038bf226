// Rows of a matrix by number: out[r] = row ids[r] of a weight stored as in matrix.h, converted to out's dtype.
//
// weight [vocabulary, columns]; out [rows, columns] T, row stride in elements; ids [rows]. The row of an id that is not below
// the vocabulary becomes zeros; the first such row goes to check[0], by a minimum, and the id of each to check[1 + row]. Without
// `check`, the host has checked the ids.
// Elements that need no conversion are moved as bits.
//
// Grid: (ceil(columns / (8 GDM_EMBEDDING_THREADS)), rows) threadgroups of GDM_EMBEDDING_THREADS: a thread takes eight
// elements. Function constants: ALIGNED_ROWS, MATRIX_ALIGNMENT, MATRIX_SHIFT, MATRIX_GROUP, MATRIX_DTYPE, SCALES_SHIFT,
// BIASES_SHIFT.
#include "matrix.h"

template <typename T> METAL_FUNC void embedding_move(device T* out, typename Bits<T>::type bits) {
  *(device typename Bits<T>::type*)out = bits;
}

template <typename T, typename W, uint PACKED> struct Embedding {
  static METAL_FUNC void put(device T* out, thread const MatrixRow<W>& row, uint at, uint columns) {
    GDM_UNROLL for (uint j = 0; j < 8; ++j) {
      if (at + j < columns) out[at + j] = T(Bits<W>::value(uint(matrix_bits(row.row, j))));
    }
  }
};
template <typename T> struct Embedding<T, T, 0> {
  static METAL_FUNC void put(device T* out, thread const MatrixRow<T>& row, uint at, uint columns) {
    GDM_UNROLL for (uint j = 0; j < 8; ++j) {
      if (at + j < columns) embedding_move(out + at + j, matrix_bits(row.row, j));
    }
  }
};
template <typename T, typename P> struct Embedding<T, P, 1> {
  static METAL_FUNC void put(device T* out, thread const MatrixRow<P>& row, uint at, uint columns) {
    Raw<P> raw;
    Eight v;
    matrix_fetch(raw, row, 0, at, columns);
    matrix_ready(raw);
    matrix_widen(v, raw, GDM_PROJECT_UNIT);
    GDM_UNROLL for (uint j = 0; j < 4; ++j) {
      out[at + j] = T(v.lower[j]);
      out[at + 4 + j] = T(v.upper[j]);
    }
  }
};

template <typename T, typename W>
[[max_total_threads_per_threadgroup(GDM_EMBEDDING_THREADS)]]
kernel void gd_embedding(device const ushort* weight [[buffer(0)]],
                         device const ushort* scales [[buffer(1)]],
                         device const ushort* biases [[buffer(2)]],
                         device T* out [[buffer(3)]],
                         device const int* ids [[buffer(4)]],
                         device uint* check [[buffer(5)]],
                         constant GDMEmbedding& params [[buffer(6)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint index [[thread_index_in_threadgroup]]) {
  uint at = 8 * (group.x * GDM_EMBEDDING_THREADS + index);
  int id = ids[group.y];
  if (id < 0 || uint(id) >= params.vocabulary) {
    if (at == 0) {
      check[1 + group.y] = uint(id);
      atomic_fetch_min_explicit((device atomic_uint*)check, group.y, memory_order_relaxed);
    }
    for (uint j = at; j < min(at + 8, params.columns); ++j) out[ulong(group.y) * params.outRowStride + j] = T(0.0f);
    return;
  }
  if (at >= params.columns) return;
  MatrixRow<W> row;
  matrix_place(row, weight, scales, biases, uint(id), at, params.columns);
  Embedding<T, W, IsPacked<W>::value>::put(out + ulong(group.y) * params.outRowStride, row, at, params.columns);
}

// Names: gd_embedding_<T>_<W>, W a float dtype or an unpacking, such as affine4.
GDM_INSTANTIATE_TW(gd_embedding)
