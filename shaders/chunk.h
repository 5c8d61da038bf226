// The pieces of chunk_scan.metal: the state as simdgroup matrices, and the tile of 16 staged rows.
//
// Only documented simdgroup_matrix operations are used (load, store, multiply, the diagonal constructor), so nothing
// here depends on which lane holds which element. Every function is called by all threads of the threadgroup, or by
// all lanes of a simdgroup, in uniform control flow.
#ifndef GATED_DELTA_SHADERS_CHUNK_H
#define GATED_DELTA_SHADERS_CHUNK_H

#include "rows.h"

// The panels of the state must live in registers, so loops over them are unrolled: an array with a running index would
// be kept in memory.
#define GDM_UNROLL _Pragma("clang loop unroll(full)")

// The state rows of one simdgroup (never passed as const: the operations on matrices are documented to take references
// to ones that are not): part f is [key columns 8 f .. 8 f + 7, 8 rows].
template <uint P> struct Panels {
  simdgroup_float8x8 part[P];
};

template <uint P> inline bool panel_exists(uint panel, uint panels) { return P < 32 || panel < panels; }

// Puts row `own` into the tile, scaled; zeros past the chunk's end, whatever the norm made of the row.
template <uint N>
inline void chunk_put(threadgroup float* tile, thread const Row<N>& row, bool present, float scale, uint own,
                      uint lane, uint keyDim) {
  Row<N> scaled = row;
  row_scale(scaled, scale);
  if (!present) row_zero(scaled);
  row_store(tile + own * keyDim, scaled, lane, keyDim);
}

// Scales row i of the tile by the product of the decays up to token i, per key dimension.
inline void chunk_scale_up_to(threadgroup float* tile, device const float* gate, ulong gateStride, uint count,
                              uint index, uint keyDim) {
  for (uint d = index; d < keyDim; d += GDM_CHUNK_THREADS) {
    float product = 1.0f;
    for (uint i = 0; i < count; ++i) {
      product *= gate[i * gateStride + d];
      tile[i * keyDim + d] *= product;
    }
  }
}

// Scales row i by the product of the decays after token i, and lays out the chunk's whole product as diagonal 8 x 8
// matrices [Dk / 8, 8, 8].
inline void chunk_scale_after(threadgroup float* tile, threadgroup float* decays, device const float* gate,
                              ulong gateStride, uint count, uint index, uint keyDim) {
  for (uint d = index; d < keyDim; d += GDM_CHUNK_THREADS) {
    float product = 1.0f;
    for (uint i = count; i > 0; --i) {
      tile[(i - 1) * keyDim + d] *= product;
      product *= gate[(i - 1) * gateStride + d];
    }
    for (uint c = 0; c < 8; ++c) decays[d * 8 + c] = c == d % 8 ? product : 0.0f;
  }
}

// result += (8 rows of the tile) times the state.
template <uint P>
inline void chunk_times_state(thread simdgroup_float8x8& result, threadgroup const float* tile,
                              thread Panels<P>& s, uint panels, uint keyDim) {
  GDM_UNROLL
  for (uint f = 0; f < P; ++f) {
    if (panel_exists<P>(f, panels)) {
      simdgroup_float8x8 rows;
      simdgroup_load(rows, tile + 8 * f, keyDim, 0, false);
      simdgroup_multiply_accumulate(result, rows, s.part[f], result);
    }
  }
}

// (y0, y1) = (c0, c1) + M (x0, x1) for a lower triangular M [16, 16].
inline void chunk_lower(thread simdgroup_float8x8& y0, thread simdgroup_float8x8& y1, threadgroup const float* m,
                        simdgroup_float8x8 x0, simdgroup_float8x8 x1, simdgroup_float8x8 c0, simdgroup_float8x8 c1) {
  simdgroup_float8x8 m00;
  simdgroup_float8x8 m10;
  simdgroup_float8x8 m11;
  simdgroup_load(m00, m, GDM_CHUNK, 0, false);
  simdgroup_load(m10, m + 8 * GDM_CHUNK, GDM_CHUNK, 0, false);
  simdgroup_load(m11, m + 8 * GDM_CHUNK + 8, GDM_CHUNK, 0, false);
  simdgroup_multiply_accumulate(y0, m00, x0, c0);
  simdgroup_multiply_accumulate(y1, m10, x0, c1);
  simdgroup_multiply_accumulate(y1, m11, x1, y1);
}

// S <- decay S + (tile)^T Vn. Per head the decay is `total`; per key dimension the diagonal matrices in `decays`.
template <uint P>
inline void chunk_update(thread Panels<P>& s, threadgroup const float* tile, threadgroup const float* decays,
                         float total, simdgroup_float8x8 v0, simdgroup_float8x8 v1, uint panels, uint keyDim) {
  simdgroup_float8x8 decay = simdgroup_float8x8(total);
  GDM_UNROLL
  for (uint f = 0; f < P; ++f) {
    if (panel_exists<P>(f, panels)) {
      simdgroup_float8x8 columns;
      simdgroup_float8x8 next;
      if (GATE_PER_KEY) simdgroup_load(decay, decays + 64 * f, 8, 0, false);
      simdgroup_multiply(next, decay, s.part[f]);
      simdgroup_load(columns, tile + 8 * f, keyDim, 0, true);
      simdgroup_multiply_accumulate(next, columns, v0, next);
      simdgroup_load(columns, tile + 8 * keyDim + 8 * f, keyDim, 0, true);
      simdgroup_multiply_accumulate(next, columns, v1, next);
      s.part[f] = next;
    }
  }
}

// The state rows from their slot, 16 at a time through the tile: each row group reads a row, then the two simdgroups
// that own the rows take them transposed. Rows beyond `rows` are zeros.
template <typename S, uint N>
inline void chunk_state_read(thread Panels<4 * N>& s, threadgroup float* tile, device const S* pool,
                             device const S* staged, int slot, uint slotRows, uint slotRow, uint rows, uint index,
                             uint keyDim) {
  uint lane = index % GDM_ROW_LANES;
  uint own = index / GDM_ROW_LANES;
  uint owner = index / GDM_SIMD_LANES;
  for (uint slice = 0; slice < 2; ++slice) {
    uint row = slice * 16 + own;
    Row<N> x;
    state_read(x, pool, staged, row < rows ? slot : GDM_SLOT_NONE, slotRows, slotRow + row, lane, keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    row_store(tile + own * keyDim, x, lane, keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (owner / 2 == slice) {
      GDM_UNROLL
      for (uint f = 0; f < 4 * N; ++f) {
        if (panel_exists<4 * N>(f, keyDim / 8)) {
          simdgroup_load(s.part[f], tile + (owner % 2) * 8 * keyDim + 8 * f, keyDim, 0, true);
        }
      }
    }
  }
}

// The same way back. Begins with a barrier: the tile may still be in use.
template <typename S, uint N>
inline void chunk_state_write(thread Panels<4 * N>& s, threadgroup float* tile, device S* pool, uint slot,
                              uint slotRows, uint slotRow, uint rows, uint index, uint keyDim) {
  uint lane = index % GDM_ROW_LANES;
  uint own = index / GDM_ROW_LANES;
  uint owner = index / GDM_SIMD_LANES;
  for (uint slice = 0; slice < 2; ++slice) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (owner / 2 == slice) {
      GDM_UNROLL
      for (uint f = 0; f < 4 * N; ++f) {
        if (panel_exists<4 * N>(f, keyDim / 8)) {
          simdgroup_store(s.part[f], tile + (owner % 2) * 8 * keyDim + 8 * f, keyDim, 0, true);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint row = slice * 16 + own;
    Row<N> x;
    row_load(x, tile + own * keyDim, lane, keyDim);
    if (row < rows) state_write<S>(pool, x, slot, slotRows, slotRow + row, lane, keyDim);
  }
}

// Extra stores due after `done` tokens.
template <typename S, uint N>
inline void chunk_stores(thread uint& cursor, uint end, device const GDMStore* stores, int done,
                         thread Panels<4 * N>& s, threadgroup float* tile, device S* pool, device S* snapshots,
                         uint slotRows, uint slotRow, uint rows, uint index, uint keyDim) {
  while (cursor < end && stores[cursor].tokens <= done) {
    int slot = stores[cursor].slot;
    if (slot >= 0) chunk_state_write<S, N>(s, tile, pool, uint(slot), slotRows, slotRow, rows, index, keyDim);
    else chunk_state_write<S, N>(s, tile, snapshots, uint(-1 - slot), slotRows, slotRow, rows, index, keyDim);
    ++cursor;
  }
}

#endif
