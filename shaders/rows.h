// State rows of the recurrence, held by neighbouring lanes in registers.
//
// A row of up to 256 key columns is G groups of four: G = 16 for a key dim of 64, 32 for 128, and 64 for any other
// multiple of 8, columns at or beyond the key dim being zero. L lanes hold it (8, 16 or 32): lane l has the groups
// l + L i, i = 0 .. G / L - 1, so that neighbouring lanes read neighbouring memory.
//
// The order of every sum over a row depends only on the key dim, not on L: each kernel chooses its lanes by the shape
// of its work, yet decode, prefill, commit and step give the same bits.
//   1. a group: its four columns in ascending order, a product and three fma
//   2. G = 64: position p is group p plus group p + 32, p = 0 .. 31; otherwise a position is a group
//   3. positions by xor 16, 8, 1, 2, 4 of their number; a key dim of 64 has 16 positions and begins with 8
// Steps of 3 inside a lane come first and steps between lanes last, so that a dot costs at most five shuffles.
//
// The rule (Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, equation 10, in its state-row form):
//   S <- a S;  delta = beta (v - S k);  S <- S + delta k^T;  o = S q
#ifndef GATED_DELTA_SHADERS_ROWS_H
#define GATED_DELTA_SHADERS_ROWS_H

#include "storage.h"

template <uint L, uint G> struct Row {
  float4 part[G / L];
};

// R rows of one lane group.
template <uint L, uint G, uint R> struct Rows {
  Row<L, G> row[R];
};

// The first column of part i of this lane.
template <uint L> METAL_FUNC uint row_column(uint lane, uint i) { return 4 * (lane + L * i); }

// Only G = 64 has columns beyond the key dim.
template <uint G> METAL_FUNC bool row_holds(uint column, uint keyDim) { return G < 64 || column < keyDim; }

template <uint L, uint G> METAL_FUNC void row_zero(thread Row<L, G>& row) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) row.part[i] = float4(0.0f);
}

// A row in the form that memory holds. Widening must wait for the read to complete: rows that are asked for long before
// their use stay in this form until then.
template <typename T, uint L, uint G> struct RowBits {
  typename Vec4<T>::type part[G / L];
};

template <typename T, uint L, uint G>
METAL_FUNC void row_ask(thread RowBits<T, L, G>& bits, device const T* p, uint lane, uint keyDim) {
  typedef typename Vec4<T>::type T4;
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    bits.part[i] = row_holds<G>(column, keyDim) ? *(device const T4*)(p + column) : T4(T(0.0f));
  }
}

template <typename T, uint L, uint G> METAL_FUNC void row_none(thread RowBits<T, L, G>& bits) {
  typedef typename Vec4<T>::type T4;
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) bits.part[i] = T4(T(0.0f));
}

template <typename T, uint L, uint G> METAL_FUNC void row_widen(thread Row<L, G>& row, thread const RowBits<T, L, G>& bits) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) row.part[i] = Vec4<T>::widen(bits.part[i]);
}

template <typename T, uint L, uint G>
METAL_FUNC void row_load(thread Row<L, G>& row, device const T* p, uint lane, uint keyDim) {
  RowBits<T, L, G> bits;
  row_ask(bits, p, lane, keyDim);
  row_widen(row, bits);
}

template <uint L, uint G>
METAL_FUNC void row_load(thread Row<L, G>& row, threadgroup const float* p, uint lane, uint keyDim) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    row.part[i] = row_holds<G>(column, keyDim) ? *(threadgroup const float4*)(p + column) : float4(0.0f);
  }
}

template <typename T, uint L, uint G>
METAL_FUNC void row_store(device T* p, thread const Row<L, G>& row, uint lane, uint keyDim) {
  typedef typename Vec4<T>::type T4;
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    if (row_holds<G>(column, keyDim)) *(device T4*)(p + column) = Vec4<T>::round(row.part[i]);
  }
}

template <uint L, uint G>
METAL_FUNC void row_store(threadgroup float* p, thread const Row<L, G>& row, uint lane, uint keyDim) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    if (row_holds<G>(column, keyDim)) *(threadgroup float4*)(p + column) = row.part[i];
  }
}

METAL_FUNC float group_dot(float4 a, float4 b) {
  float sum = a.x * b.x;
  sum = fma(a.y, b.y, sum);
  sum = fma(a.z, b.z, sum);
  return fma(a.w, b.w, sum);
}

// A lane's own part of the sum of a b over the columns.
template <uint L, uint G> METAL_FUNC float row_partial(thread const Row<L, G>& a, thread const Row<L, G>& b) {
  constexpr uint positions = (G < 64 ? G : 32) / L;
  float sum[positions];
  GDM_UNROLL for (uint i = 0; i < positions; ++i) {
    sum[i] = group_dot(a.part[i], b.part[i]);
    if (G == 64) sum[i] += group_dot(a.part[i + G / L - positions], b.part[i + G / L - positions]);
  }
  if (positions > 2) {
    GDM_UNROLL for (uint i = 0; i < positions / 2; ++i) sum[i] += sum[i + positions / 2];
  }
  if (positions > 1) sum[0] += sum[positions > 1 ? 1 : 0];
  return sum[0];
}

// The sum of a b over the columns, the same bits in all lanes of the row. Every lane of the simdgroup must call it.
template <uint L, uint G> METAL_FUNC float row_dot(thread const Row<L, G>& a, thread const Row<L, G>& b) {
  float total = row_partial(a, b);
  if (L > 16) total += simd_shuffle_xor(total, ushort(16));
  if (L > 8) total += simd_shuffle_xor(total, ushort(8));
  total += simd_shuffle_xor(total, ushort(1));
  total += simd_shuffle_xor(total, ushort(2));
  total += simd_shuffle_xor(total, ushort(4));
  return total;
}

template <uint L, uint G> METAL_FUNC void row_scale(thread Row<L, G>& row, float factor) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) row.part[i] *= factor;
}

template <uint L, uint G> METAL_FUNC void row_scale(thread Row<L, G>& row, thread const Row<L, G>& factors) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) row.part[i] *= factors.part[i];
}

// S <- S + delta k^T for this row. Columns beyond the key dim stay zero: an infinite delta times their zeros is NaN.
template <uint L, uint G>
METAL_FUNC void row_add(thread Row<L, G>& state, float delta, thread const Row<L, G>& key, uint lane, uint keyDim) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    float4 sum = fma(float4(delta), key.part[i], state.part[i]);
    state.part[i] = row_holds<G>(row_column<L>(lane, i), keyDim) ? sum : float4(0.0f);
  }
}

// The factor of a query or key row, from the sum of its squares:
//   l2  rsqrt(sum x^2 + eps);  l2-max  1 / max(sqrt(sum x^2), eps);  rms  rsqrt(sum x^2 + keyDim eps)
METAL_FUNC float row_norm(float sum, uint keyDim, float epsilon) {
  if (QK_NORM == GDM_NORM_L2_MAX) {
    float norm = precise::sqrt(sum);
    return precise::divide(1.0f, norm > epsilon ? norm : epsilon);
  }
  return gd_rsqrt(QK_NORM == GDM_NORM_RMS ? fma(float(keyDim), epsilon, sum) : sum + epsilon);
}

// Normalises a row and applies `scale` (1 for keys).
template <uint L, uint G>
METAL_FUNC void row_normalise(thread Row<L, G>& row, uint keyDim, float epsilon, float scale) {
  row_scale(row, QK_NORM == GDM_NORM_NONE ? scale : row_norm(row_dot(row, row), keyDim, epsilon) * scale);
}

// A key and a query at once: root and quotient of the key in the even lanes, of the query in the odd ones.
template <uint L, uint G>
METAL_FUNC void rows_normalise(thread Row<L, G>& key, thread Row<L, G>& query, uint lane, uint keyDim, float epsilon,
                               float scale) {
  if (QK_NORM == GDM_NORM_NONE) {
    row_scale(key, 1.0f);  // as row_normalise does: subnormal numbers may be flushed to zero
    row_scale(query, scale);
    return;
  }
  float ofKey = row_dot(key, key);
  float ofQuery = row_dot(query, query);
  bool odd = lane % 2 != 0;
  float own = row_norm(odd ? ofQuery : ofKey, keyDim, epsilon);
  float other = simd_shuffle_xor(own, ushort(1));
  row_scale(key, odd ? other : own);
  row_scale(query, (odd ? own : other) * scale);
}

// The update of one token on already decayed rows: all dots with the key, then all updates, so that their shuffles
// overlap. values[r] is each row's value; outputs and deltas come back.
template <uint L, uint G, uint R> struct Step {
  float value[R];
  float out[R];
  float delta[R];
};
template <uint L, uint G, uint R>
METAL_FUNC void rows_step(thread Rows<L, G, R>& state, thread const Row<L, G>& key, thread const Row<L, G>& query,
                          thread Step<L, G, R>& step, float beta, uint lane, uint keyDim) {
  GDM_UNROLL for (uint r = 0; r < R; ++r) step.delta[r] = beta * (step.value[r] - row_dot(state.row[r], key));
  GDM_UNROLL for (uint r = 0; r < R; ++r) row_add(state.row[r], step.delta[r], key, lane, keyDim);
  GDM_UNROLL for (uint r = 0; r < R; ++r) step.out[r] = row_dot(state.row[r], query);
}

template <uint L, uint G, uint R> METAL_FUNC void rows_scale(thread Rows<L, G, R>& state, float factor) {
  GDM_UNROLL for (uint r = 0; r < R; ++r) row_scale(state.row[r], factor);
}
template <uint L, uint G, uint R>
METAL_FUNC void rows_scale(thread Rows<L, G, R>& state, thread const Row<L, G>& factors) {
  GDM_UNROLL for (uint r = 0; r < R; ++r) row_scale(state.row[r], factors);
}

// The key head that serves a value head, and whether that value head is the first of its key head's.
METAL_FUNC uint key_head_of(uint valueHead, uint keyHeads, uint valueHeads) {
  return TILED_HEADS ? valueHead % keyHeads : valueHead / (valueHeads / keyHeads);
}
METAL_FUNC bool is_first_of_key_head(uint valueHead, uint keyHeads, uint valueHeads) {
  return TILED_HEADS ? valueHead < keyHeads : valueHead % (valueHeads / keyHeads) == 0;
}

#endif
