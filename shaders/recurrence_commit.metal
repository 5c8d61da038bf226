// Commit of a verified draft: applies the first counts[s] records of each sequence to its state.
//
// recordKey [tokens, Hk, Dk], recordDelta [tokens, Hv, Dv], f32: what decode or prefill kept with RECORD; decay
// [tokens, Hv] or [tokens, Hv, Dk] (GATE_PER_KEY), f32: the buffer that gates.metal wrote for them. All contiguous.
// state, staged, readSlots, writeSlots: as in recurrence_decode.metal. cuSeqlens [n + 1]: the verify's.
//
// Grid: (Dv / 8, Hv, n) threadgroups of GDM_DECODE_THREADS.
// For each record: S <- a S, S <- S + delta k^T, the operations of a step in a step's order: equal bits (rows.h).
// Function constants: TILED_HEADS, GATE_PER_KEY.
#include "rows.h"

template <typename S, uint N>
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
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint valueDim = params.valueDim;
  uint lane = index % GDM_ROW_LANES;
  uint row = group.x * GDM_DECODE_ROWS + index / GDM_ROW_LANES;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint slotRows = valueHeads * valueDim;
  uint slotRow = valueHead * valueDim + row;

  Row<N> s;
  state_read(s, state, staged, readSlots[sequence], slotRows, slotRow, lane, keyDim);
  int count = counts[sequence];
  for (int t = 0; t < count; ++t) {
    ulong token = ulong(cuSeqlens[sequence] + t);
    Row<N> k;
    row_load<float>(k, recordKey + (token * keyHeads + keyHead) * keyDim, lane, keyDim);
    ulong pair = token * valueHeads + valueHead;
    if (GATE_PER_KEY) {
      Row<N> decay;
      row_load<float>(decay, gate + pair * keyDim, lane, keyDim);
      row_scale(s, decay);
    } else {
      row_scale(s, gate[pair]);
    }
    row_add(s, recordDelta[pair * valueDim + row], k, lane, keyDim);
  }
  int slot = writeSlots[sequence];
  if (slot >= 0) state_write<S>(state, s, uint(slot), slotRows, slotRow, lane, keyDim);
}

// Names: gd_commit_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_commit_f32_k64")]] kernel decltype(gd_commit<float, 2>) gd_commit<float, 2>;
template [[host_name("gd_commit_f16_k64")]] kernel decltype(gd_commit<half, 2>) gd_commit<half, 2>;
template [[host_name("gd_commit_bf16_k64")]] kernel decltype(gd_commit<bfloat, 2>) gd_commit<bfloat, 2>;
template [[host_name("gd_commit_f32_k128")]] kernel decltype(gd_commit<float, 4>) gd_commit<float, 4>;
template [[host_name("gd_commit_f16_k128")]] kernel decltype(gd_commit<half, 4>) gd_commit<half, 4>;
template [[host_name("gd_commit_bf16_k128")]] kernel decltype(gd_commit<bfloat, 4>) gd_commit<bfloat, 4>;
template [[host_name("gd_commit_f32_kany")]] kernel decltype(gd_commit<float, 8>) gd_commit<float, 8>;
template [[host_name("gd_commit_f16_kany")]] kernel decltype(gd_commit<half, 8>) gd_commit<half, 8>;
template [[host_name("gd_commit_bf16_kany")]] kernel decltype(gd_commit<bfloat, 8>) gd_commit<bfloat, 8>;
