// Chunked gated delta rule, second half: the state through a sequence's chunks, 16 tokens at a time, with 8 x 8
// simdgroup matrices.
//
// query, key, value, gate, state, staged, out, slots and stores: as in recurrence_decode.metal (no records). scratch:
// the scratch of chunk_prepare.metal. chunks, chunkOffsets [n + 1]: sequence s has chunks chunkOffsets[s] ..
// chunkOffsets[s + 1] - 1; one ends wherever a store wants the state.
//
// Grid: (ceil(Dv / 32), Hv, n) threadgroups of GDM_CHUNK_THREADS. A simdgroup owns 8 state rows, held transposed as
// Dk / 8 matrices [8 key columns, 8 rows]; those beyond Dv hold zeros and write nothing.
// Threadgroup memory, in floats: tile [16, Dk] | values [16, 32] | matrices [2, 16, 16] | GATE_PER_KEY: decays
// [Dk / 8, 8, 8], passed by the host.
//
// With g_i the product of the chunk's decays up to token i and h_i of those after it, per head or per key dimension:
// 1. O = (g Q) S.   2. R = V - (g K) S.   3. Vn = (I + A)^-1 beta R, O += P Vn.   4. S <- g_last S + (h K)^T Vn.
// Rows are scaled as they are staged, so that every product but the decay of S is a plain one; S is decayed element by
// element. Products of decays are running ones: see chunk_prepare.metal.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES.
#include "chunk.h"

template <typename T, typename S, uint G>
[[max_total_threads_per_threadgroup(GDM_CHUNK_THREADS)]]
kernel void gd_chunk_scan(device const T* query [[buffer(0)]],
                          device const T* key [[buffer(1)]],
                          device const T* value [[buffer(2)]],
                          device const float* gate [[buffer(3)]],
                          device const float* scratch [[buffer(4)]],
                          device S* state [[buffer(5)]],
                          device const S* staged [[buffer(6)]],
                          device T* out [[buffer(7)]],
                          device const GDMChunk* chunks [[buffer(8)]],
                          device const uint* chunkOffsets [[buffer(9)]],
                          device const int* readSlots [[buffer(10)]],
                          device const int* writeSlots [[buffer(11)]],
                          device const uint* storeOffsets [[buffer(12)]],
                          device const GDMStore* stores [[buffer(13)]],
                          device S* snapshots [[buffer(14)]],
                          constant GDMRecurrence& params [[buffer(15)]],
                          threadgroup float* memory [[threadgroup(0)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint index [[thread_index_in_threadgroup]]) {
  Recurrence<T, S> given = {query, key, value, out, state, staged, snapshots, readSlots, writeSlots, storeOffsets, stores};
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint panels = keyDim / 8;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, params.keyHeads, params.valueHeads);
  uint firstRow = group.x * GDM_CHUNK_ROWS;
  uint rows = min(uint(GDM_CHUNK_ROWS), params.valueDim - firstRow);
  uint slotRows = params.valueHeads * params.valueDim;
  uint slotRow = valueHead * params.valueDim + firstRow;
  threadgroup float* tile = memory;
  threadgroup float* values = tile + GDM_CHUNK * keyDim;
  threadgroup float* matrices = values + GDM_CHUNK * GDM_CHUNK_ROWS;
  threadgroup float* decays = matrices + GDM_CHUNK_SCRATCH;

  uint lane = index % GDM_CHUNK_LANES;
  uint own = index / GDM_CHUNK_LANES;  // the token that this row group stages
  uint column = 8 * (index / GDM_SIMD_LANES);  // this simdgroup's first row, a column of values

  States<S> states = states_of(given, sequence, slotRows, keyDim);
  ChunkRows set = chunk_rows(slotRow, rows, index);
  int readSlot = readSlots[sequence];
  int writeSlot = writeSlots[sequence];
  bool empty = chunkOffsets[sequence] == chunkOffsets[sequence + 1];
  if (HAS_STORES || empty) states_begin<S, GDM_CHUNK_LANES, G, 2>(states, readSlot, writeSlot, empty, set);
  if (empty) return;

  Panels<G / 2> s;
  chunk_state_read<S, G>(s, tile, states, readSlot, set, index);
  int done = 0;

  for (uint chunk = chunkOffsets[sequence]; chunk < chunkOffsets[sequence + 1]; ++chunk) {
    uint count = uint(chunks[chunk].count);
    ulong base = ulong(chunks[chunk].firstToken);
    ulong token = base + min(own, count - 1);
    bool present = own < count;
    ulong gateBase = gate_at(params, base, valueHead);
    ulong gateStride = params.gateTokenStride;

    // Per head: the products of decays up to and after the token this group stages, and of the chunk.
    float upTo = 1.0f;
    float after = 1.0f;
    float total = 1.0f;
    if (!GATE_PER_KEY) {
      for (uint i = 0; i < count; ++i) {
        float a = gate[gateBase + i * gateStride];
        if (i <= own) upTo *= a;
        else after *= a;
        total *= a;
      }
    }

    // 1. Queries, values and the chunk's matrices.
    threadgroup_barrier(mem_flags::mem_threadgroup);
    Row<GDM_CHUNK_LANES, G> row;
    row_load<T>(row, query_of(given, params, token, keyHead), lane, keyDim);
    row_normalise(row, keyDim, params.epsilon, params.scale);
    chunk_put(tile, row, present, upTo, own, lane, keyDim);
    for (uint i = index; i < GDM_CHUNK * GDM_CHUNK_ROWS; i += GDM_CHUNK_THREADS) {
      uint t = i / GDM_CHUNK_ROWS;
      uint r = i % GDM_CHUNK_ROWS;
      values[i] = t < count && r < rows ? float(value_of(given, params, base + t, valueHead)[firstRow + r]) : 0.0f;
    }
    ulong scratchAt = (ulong(chunk) * params.valueHeads + valueHead) * GDM_CHUNK_SCRATCH;
    for (uint i = index; i < GDM_CHUNK_SCRATCH; i += GDM_CHUNK_THREADS) matrices[i] = scratch[scratchAt + i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (GATE_PER_KEY) {
      chunk_scale_up_to(tile, gate + gateBase, gateStride, count, index, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    simdgroup_float8x8 o0 = simdgroup_float8x8(0.0f);
    simdgroup_float8x8 o1 = simdgroup_float8x8(0.0f);
    chunk_times_state(o0, tile, s, panels, keyDim);
    chunk_times_state(o1, tile + 8 * keyDim, s, panels, keyDim);

    // 2. Keys, negated, so that the product adds onto V.
    threadgroup_barrier(mem_flags::mem_threadgroup);
    row_load<T>(row, key_of(given, params, token, keyHead), lane, keyDim);
    row_normalise(row, keyDim, params.epsilon, 1.0f);
    chunk_put(tile, row, present, -upTo, own, lane, keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (GATE_PER_KEY) {
      chunk_scale_up_to(tile, gate + gateBase, gateStride, count, index, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    simdgroup_float8x8 r0;
    simdgroup_float8x8 r1;
    simdgroup_load(r0, values + column, GDM_CHUNK_ROWS, 0, false);
    simdgroup_load(r1, values + 8 * GDM_CHUNK_ROWS + column, GDM_CHUNK_ROWS, 0, false);
    chunk_times_state(r0, tile, s, panels, keyDim);
    chunk_times_state(r1, tile + 8 * keyDim, s, panels, keyDim);

    // 3. Both matrices are lower triangular: three 8 x 8 blocks each.
    simdgroup_float8x8 v0;
    simdgroup_float8x8 v1;
    chunk_lower(v0, v1, matrices, r0, r1, simdgroup_float8x8(0.0f), simdgroup_float8x8(0.0f));
    chunk_lower(o0, o1, matrices + GDM_CHUNK * GDM_CHUNK, v0, v1, o0, o1);

    // 4. Keys as the state takes them; outputs go where the values were.
    threadgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_store(o0, values + column, GDM_CHUNK_ROWS, 0, false);
    simdgroup_store(o1, values + 8 * GDM_CHUNK_ROWS + column, GDM_CHUNK_ROWS, 0, false);
    chunk_put(tile, row, present, after, own, lane, keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (GATE_PER_KEY) {
      chunk_scale_after(tile, decays, gate + gateBase, gateStride, count, index, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (uint i = index; i < count * GDM_CHUNK_ROWS; i += GDM_CHUNK_THREADS) {
      uint t = i / GDM_CHUNK_ROWS;
      uint r = i % GDM_CHUNK_ROWS;
      ulong at = out_at(params, base + t, valueHead) + firstRow + r;
      if (r < rows) write_wide(out, at, values[i], OUT_F32);
    }
    chunk_update(s, tile, decays, total, v0, v1, panels, keyDim);

    done += int(count);
    if (HAS_STORES) chunk_stores<S, G>(states, done, s, tile, set, index);
  }

  if (writeSlot >= 0) chunk_state_write<S, G>(s, tile, states, state, uint(writeSlot), set, index);
}

// Names: gd_chunk_scan_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_chunk_scan)
