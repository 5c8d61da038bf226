// One state row of the recurrence, held by GDM_ROW_LANES = 8 neighbouring lanes in registers; four rows a simdgroup.
//
// Lane map: lane l holds the key columns 4 (l + 8 i) + {0, 1, 2, 3} for i = 0 .. N - 1, so that the eight lanes read
// 128 neighbouring bytes of float32 at a time. N = 2 for a key dim of 64, 4 for 128; N = 8 serves any multiple of 8 up
// to 256, columns at or beyond the key dim being zero. Which N a call uses depends on the key dim alone, and so does
// the order of every sum: in a lane over i by fma, then (x + y) + (z + w), then across lanes by xor 1, 2, 4. Decode,
// prefill, chunk_prepare, commit and step share it, which is why their bits agree.
//
// The rule (Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, equation 10, in its state-row form):
//   S <- a S;  delta = beta (v - S k);  S <- S + delta k^T;  o = S q
#ifndef GATED_DELTA_SHADERS_ROWS_H
#define GATED_DELTA_SHADERS_ROWS_H

#include "storage.h"

template <uint N> struct Row {
  float4 part[N];
};

// The first column of part i of this lane.
inline uint row_column(uint lane, uint i) { return 4 * (lane + GDM_ROW_LANES * i); }

// Only N = 8 has columns beyond the key dim.
template <uint N> inline bool row_holds(uint column, uint keyDim) { return N < 8 || column < keyDim; }

template <uint N> inline void row_zero(thread Row<N>& row) {
  for (uint i = 0; i < N; ++i) row.part[i] = float4(0.0f);
}

template <typename T, uint N>
inline void row_load(thread Row<N>& row, device const T* p, uint lane, uint keyDim) {
  typedef typename Vec4<T>::type T4;
  for (uint i = 0; i < N; ++i) {
    uint column = row_column(lane, i);
    row.part[i] = row_holds<N>(column, keyDim) ? Vec4<T>::widen(*(device const T4*)(p + column)) : float4(0.0f);
  }
}

template <uint N>
inline void row_load(thread Row<N>& row, threadgroup const float* p, uint lane, uint keyDim) {
  for (uint i = 0; i < N; ++i) {
    uint column = row_column(lane, i);
    row.part[i] = row_holds<N>(column, keyDim) ? *(threadgroup const float4*)(p + column) : float4(0.0f);
  }
}

template <typename T, uint N>
inline void row_store(device T* p, thread const Row<N>& row, uint lane, uint keyDim) {
  typedef typename Vec4<T>::type T4;
  for (uint i = 0; i < N; ++i) {
    uint column = row_column(lane, i);
    if (row_holds<N>(column, keyDim)) *(device T4*)(p + column) = Vec4<T>::round(row.part[i]);
  }
}

template <uint N>
inline void row_store(threadgroup float* p, thread const Row<N>& row, uint lane, uint keyDim) {
  for (uint i = 0; i < N; ++i) {
    uint column = row_column(lane, i);
    if (row_holds<N>(column, keyDim)) *(threadgroup float4*)(p + column) = row.part[i];
  }
}

// The sum over the columns of a b, the same bits in all eight lanes. Every lane of the simdgroup must call it.
template <uint N> inline float row_dot(thread const Row<N>& a, thread const Row<N>& b) {
  float4 sum = a.part[0] * b.part[0];
  for (uint i = 1; i < N; ++i) sum = fma(a.part[i], b.part[i], sum);
  float total = (sum.x + sum.y) + (sum.z + sum.w);
  total += simd_shuffle_xor(total, ushort(1));
  total += simd_shuffle_xor(total, ushort(2));
  total += simd_shuffle_xor(total, ushort(4));
  return total;
}

template <uint N> inline void row_scale(thread Row<N>& row, float factor) {
  for (uint i = 0; i < N; ++i) row.part[i] *= factor;
}

template <uint N> inline void row_scale(thread Row<N>& row, thread const Row<N>& factors) {
  for (uint i = 0; i < N; ++i) row.part[i] *= factors.part[i];
}

// S <- S + delta k^T for this row. Columns beyond the key dim stay zero: an infinite delta times their zeros is NaN.
template <uint N>
inline void row_add(thread Row<N>& state, float delta, thread const Row<N>& key, uint lane, uint keyDim) {
  for (uint i = 0; i < N; ++i) {
    float4 sum = fma(float4(delta), key.part[i], state.part[i]);
    state.part[i] = row_holds<N>(row_column(lane, i), keyDim) ? sum : float4(0.0f);
  }
}

// Normalises a query or key row and applies `scale` (1 for keys):
//   l2  x rsqrt(sum x^2 + eps);  l2-max  x / max(sqrt(sum x^2), eps);  rms  x rsqrt(sum x^2 + keyDim eps)
template <uint N> inline void row_normalise(thread Row<N>& row, uint keyDim, float epsilon, float scale) {
  if (QK_NORM == GDM_NORM_NONE) {
    row_scale(row, scale);
    return;
  }
  float sum = row_dot(row, row);
  float inverse = 0.0f;
  if (QK_NORM == GDM_NORM_L2_MAX) {
    float norm = precise::sqrt(sum);
    inverse = precise::divide(1.0f, norm > epsilon ? norm : epsilon);
  } else {
    inverse = gd_rsqrt(QK_NORM == GDM_NORM_RMS ? fma(float(keyDim), epsilon, sum) : sum + epsilon);
  }
  row_scale(row, inverse * scale);
}

// The update of one token on an already decayed row. Returns the output, and delta through its argument.
template <uint N>
inline float row_step(thread Row<N>& state, thread const Row<N>& key, thread const Row<N>& query, float value,
                      float beta, thread float& delta, uint lane, uint keyDim) {
  delta = beta * (value - row_dot(state, key));
  row_add(state, delta, key, lane, keyDim);
  return row_dot(state, query);
}

// The key head that serves a value head, and whether that value head is the first of its key head's.
inline uint key_head_of(uint valueHead, uint keyHeads, uint valueHeads) {
  return TILED_HEADS ? valueHead % keyHeads : valueHead / (valueHeads / keyHeads);
}
inline bool is_first_of_key_head(uint valueHead, uint keyHeads, uint valueHeads) {
  return TILED_HEADS ? valueHead < keyHeads : valueHead % (valueHeads / keyHeads) == 0;
}

// A state row as the op found it, from slot `slot` of the pool or of the staged copies; -1 is zeros by store, so that
// nothing of a slot's old content survives. `row` counts rows within a slot.
template <typename S, uint N>
inline void state_read(thread Row<N>& state, device const S* pool, device const S* staged, int slot, uint slotRows,
                       uint row, uint lane, uint keyDim) {
  if (slot == GDM_SLOT_NONE) {
    row_zero(state);
  } else if (slot >= 0) {
    row_load<S>(state, pool + (ulong(slot) * slotRows + row) * keyDim, lane, keyDim);
  } else {
    row_load<S>(state, staged + (ulong(GDM_SLOT_STAGED - slot) * slotRows + row) * keyDim, lane, keyDim);
  }
}

template <typename S, uint N>
inline void state_write(device S* pool, thread const Row<N>& state, uint slot, uint slotRows, uint row, uint lane,
                        uint keyDim) {
  row_store<S>(pool + (ulong(slot) * slotRows + row) * keyDim, state, lane, keyDim);
}

// Extra stores due after `tokens` tokens: advances `cursor` over them. Only rows that exist are `valid`.
template <typename S, uint N>
inline void state_stores(thread uint& cursor, uint end, device const GDMStore* stores, int tokens, device S* pool,
                         device S* snapshots, thread const Row<N>& state, uint slotRows, uint row, bool valid,
                         uint lane, uint keyDim) {
  while (cursor < end && stores[cursor].tokens <= tokens) {
    int slot = stores[cursor].slot;
    if (valid && slot >= 0) state_write<S>(pool, state, uint(slot), slotRows, row, lane, keyDim);
    if (valid && slot < 0) state_write<S>(snapshots, state, uint(-1 - slot), slotRows, row, lane, keyDim);
    ++cursor;
  }
}

#endif
