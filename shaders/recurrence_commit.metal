// Commit of a verified draft: applies the first counts[s] records of each sequence to its state.
//
// recordKey [tokens, Hk, Dk], recordDelta [tokens, Hv, Dv], f32: what decode or prefill kept with RECORD; decay
// [tokens, Hv] or [tokens, Hv, Dk] (GATE_PER_KEY), f32: the buffer that gates.metal wrote for them. All contiguous.
// state, staged, readSlots, writeSlots: as in recurrence_decode.metal. cuSeqlens [n + 1]: those of the op that made the records.
//
// Grid: (ceil(Dv / rows), Hv, n) threadgroups, as in recurrence_decode.metal.
// For each record: S <- a S, S <- S + delta k^T, the operations of a step in a step's order, so the bits are equal (rows.h).
// Function constants: TILED_HEADS, GATE_PER_KEY.
#include "states.h"

template <typename S, uint G>
[[max_total_threads_per_threadgroup(GDM_DECODE_THREADS)]]
kernel void gd_commit(device const float* recordKey [[buffer(0)]],
                      device const float* recordDelta [[buffer(1)]],
                      device const float* gate [[buffer(2)]],
                      device S* state [[buffer(3)]],
                      device const S* staged [[buffer(4)]],
                      device const int* cuSeqlens [[buffer(5)]],
                      device const int* counts [[buffer(6)]],
                      device const int* readSlots [[buffer(7)]],
                      device const int* writeSlots [[buffer(8)]],
                      constant GDMCommit& params [[buffer(9)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint index [[thread_index_in_threadgroup]]) {
  constexpr uint L = DecodeShape<S, G>::lanes;
  constexpr uint R = DecodeShape<S, G>::rows;
  constexpr uint apart = DecodeShape<S, G>::threads / L;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint lane = index % L;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint headRow = valueHead * valueDim;
  RowSet set = {headRow + group.x * (apart * R) + index / L, apart, decode_limit<S, G>(headRow + valueDim),
                lane};
  States<S> states = {state, staged, state, (device const GDMStore*)staged, 0, 0, valueHeads * valueDim, keyDim};

  int count = counts[sequence];
  int readSlot = readSlots[sequence];
  int writeSlot = writeSlots[sequence];
  if (count == 0) {
    if (writeSlot >= 0 && writeSlot != readSlot) states_move<S, L, G, R>(states, readSlot, state, uint(writeSlot), set);
    return;
  }
  Rows<L, G, R> s;
  states_read(s, states, readSlot, set);
  for (int t = 0; t < count; ++t) {
    ulong token = ulong(cuSeqlens[sequence] + t);
    Row<L, G> k;
    row_load<float>(k, recordKey + (token * keyHeads + keyHead) * keyDim, lane, keyDim);
    ulong pair = token * valueHeads + valueHead;
    if (GATE_PER_KEY) {
      Row<L, G> decay;
      row_load<float>(decay, gate + pair * keyDim, lane, keyDim);
      rows_scale(s, decay);
    } else {
      rows_scale(s, gate[pair]);
    }
    GDM_UNROLL for (uint r = 0; r < R; ++r) {
      row_add(s.row[r], recordDelta[pair * valueDim + (row_of(set, r) - headRow)], k, lane, keyDim);
    }
  }
  if (writeSlot >= 0) states_write(states, state, uint(writeSlot), s, set);
}

// Names: gd_commit_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TK(gd_commit)
