// The pieces of chunk_scan.metal: the state as simdgroup matrices, and the tile of 16 staged rows.
//
// Matrices are loaded, stored and multiplied, and their elements multiplied in place by a number or by those of another
// matrix that was loaded the same way (thread_elements, two in each lane): nothing here depends on which lane holds
// which element. Every function is called by all threads of the threadgroup, or by all lanes of a simdgroup, in uniform
// control flow.
#ifndef GATED_DELTA_SHADERS_CHUNK_H
#define GATED_DELTA_SHADERS_CHUNK_H

#include "recurrence.h"

// The state rows of one simdgroup (never passed as const: the operations on matrices are documented to take references
// to ones that are not): part f is [key columns 8 f .. 8 f + 7, 8 rows].
template <uint P> struct Panels {
  simdgroup_float8x8 part[P];
};

template <uint P> inline bool panel_exists(uint panel, uint panels) { return P < 32 || panel < panels; }

// Puts row `own` into the tile, scaled; zeros past the chunk's end, even if the norm of the row is not finite.
template <uint G>
METAL_FUNC void chunk_put(threadgroup float* tile, thread const Row<GDM_CHUNK_LANES, G>& row, bool present, float scale, uint own,
                      uint lane, uint keyDim) {
  Row<GDM_CHUNK_LANES, G> scaled = row;
  row_scale(scaled, scale);
  if (!present) row_zero(scaled);
  row_store(tile + own * keyDim, scaled, lane, keyDim);
}

// Scales row i of the tile by the product of the decays up to token i, per key dimension.
METAL_FUNC void chunk_scale_up_to(threadgroup float* tile, device const float* gate, ulong gateStride, uint count,
                              uint index, uint keyDim) {
  for (uint d = index; d < keyDim; d += GDM_CHUNK_THREADS) {
    float product = 1.0f;
    for (uint i = 0; i < count; ++i) {
      product *= gate[i * gateStride + d];
      tile[i * keyDim + d] *= product;
    }
  }
}

// Scales row i by the product of the decays after token i, and lays out the chunk's whole product as 8 x 8 matrices
// [Dk / 8, 8, 8] of equal columns.
METAL_FUNC void chunk_scale_after(threadgroup float* tile, threadgroup float* decays, device const float* gate,
                              ulong gateStride, uint count, uint index, uint keyDim) {
  for (uint d = index; d < keyDim; d += GDM_CHUNK_THREADS) {
    float product = 1.0f;
    for (uint i = count; i > 0; --i) {
      tile[(i - 1) * keyDim + d] *= product;
      product *= gate[(i - 1) * gateStride + d];
    }
    for (uint c = 0; c < 8; ++c) decays[d * 8 + c] = product;
  }
}

// result += (8 rows of the tile) times the state.
template <uint P>
METAL_FUNC void chunk_times_state(thread simdgroup_float8x8& result, threadgroup const float* tile,
                              thread Panels<P>& s, uint panels, uint keyDim) {
  GDM_UNROLL for (uint f = 0; f < P; ++f) {
    if (panel_exists<P>(f, panels)) {
      simdgroup_float8x8 rows;
      simdgroup_load(rows, tile + 8 * f, keyDim, 0, false);
      simdgroup_multiply_accumulate(result, rows, s.part[f], result);
    }
  }
}

// (y0, y1) = (c0, c1) + M (x0, x1) for a lower triangular M [16, 16].
METAL_FUNC void chunk_lower(thread simdgroup_float8x8& y0, thread simdgroup_float8x8& y1, threadgroup const float* m,
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

// S <- decay S + (tile)^T Vn, the first product element by element. Per head the decay is `total`; per key dimension, which
// is a row of the state's matrices, the matrices in `decays`.
template <uint P>
METAL_FUNC void chunk_update(thread Panels<P>& s, threadgroup const float* tile, threadgroup const float* decays,
                         float total, simdgroup_float8x8 v0, simdgroup_float8x8 v1, uint panels, uint keyDim) {
  GDM_UNROLL for (uint f = 0; f < P; ++f) {
    if (panel_exists<P>(f, panels)) {
      simdgroup_float8x8 columns;
      if (GATE_PER_KEY) {
        simdgroup_load(columns, decays + 64 * f, 8, 0, false);
        s.part[f].thread_elements() *= columns.thread_elements();
      } else {
        s.part[f].thread_elements() *= total;
      }
      simdgroup_load(columns, tile + 8 * f, keyDim, 0, true);
      simdgroup_multiply_accumulate(s.part[f], columns, v0, s.part[f]);
      simdgroup_load(columns, tile + 8 * keyDim + 8 * f, keyDim, 0, true);
      simdgroup_multiply_accumulate(s.part[f], columns, v1, s.part[f]);
    }
  }
}

// The rows of the state that this threadgroup's lane groups move: 16 apart, two slices.
typedef RowSet ChunkRows;
METAL_FUNC ChunkRows chunk_rows(uint slotRow, uint rows, uint index) {
  ChunkRows set = {slotRow + index / GDM_CHUNK_LANES, GDM_CHUNK, slotRow + rows, index % GDM_CHUNK_LANES};
  return set;
}

// The state rows from their slot, 16 at a time through the tile: each lane group reads a row, then the two simdgroups
// that own the rows take them transposed. Rows beyond the last are zeros.
template <typename S, uint G>
METAL_FUNC void chunk_state_read(thread Panels<G / 2>& s, threadgroup float* tile, thread const States<S>& at, int slot,
                                 ChunkRows set, uint index) {
  uint own = index / GDM_CHUNK_LANES;
  uint owner = index / GDM_SIMD_LANES;
  for (uint slice = 0; slice < 2; ++slice) {
    RowSet one = set;
    one.first += slice * GDM_CHUNK;
    Rows<GDM_CHUNK_LANES, G, 1> x;
    states_read(x, at, slot, one);
    if (!row_exists(one, 0)) row_zero(x.row[0]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    row_store(tile + own * at.keyDim, x.row[0], set.lane, at.keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (owner / 2 == slice) {
      GDM_UNROLL for (uint f = 0; f < G / 2; ++f) {
        if (panel_exists<G / 2>(f, at.keyDim / 8)) {
          simdgroup_load(s.part[f], tile + (owner % 2) * 8 * at.keyDim + 8 * f, at.keyDim, 0, true);
        }
      }
    }
  }
}

// The same way back. Begins with a barrier: the tile may still be in use.
template <typename S, uint G>
METAL_FUNC void chunk_state_write(thread Panels<G / 2>& s, threadgroup float* tile, thread const States<S>& at,
                                  device S* to, uint slot, ChunkRows set, uint index) {
  uint own = index / GDM_CHUNK_LANES;
  uint owner = index / GDM_SIMD_LANES;
  for (uint slice = 0; slice < 2; ++slice) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (owner / 2 == slice) {
      GDM_UNROLL for (uint f = 0; f < G / 2; ++f) {
        if (panel_exists<G / 2>(f, at.keyDim / 8)) {
          simdgroup_store(s.part[f], tile + (owner % 2) * 8 * at.keyDim + 8 * f, at.keyDim, 0, true);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    RowSet one = set;
    one.first += slice * GDM_CHUNK;
    Rows<GDM_CHUNK_LANES, G, 1> x;
    row_load(x.row[0], tile + own * at.keyDim, set.lane, at.keyDim);
    states_write(at, to, slot, x, one);
  }
}

// Extra stores due after `done` tokens.
template <typename S, uint G>
METAL_FUNC void chunk_stores(thread States<S>& at, int done, thread Panels<G / 2>& s, threadgroup float* tile,
                             ChunkRows set, uint index) {
  while (at.next < at.end && at.stores[at.next].tokens <= done) {
    int slot = at.stores[at.next].slot;
    if (slot >= 0) chunk_state_write<S, G>(s, tile, at, at.pool, uint(slot), set, index);
    else chunk_state_write<S, G>(s, tile, at, at.snapshots, uint(-1 - slot), set, index);
    ++at.next;
  }
}

#endif
