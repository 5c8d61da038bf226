// Gated delta rule, decode and short sequences: every row group walks its sequence's tokens on its own.
//
// query, key [tokens, Hk, Dk] T; value [tokens, Hv, Dv] T; strides of tokens and heads in elements, multiples of 8.
// gate [tokens, Hv] f32 decay in [0, 1], or [tokens, Hv, Dk] (GATE_PER_KEY); beta [tokens, Hv] f32.
// state [slots, Hv, Dv, Dk] S, read and written in place: one argument, since kernel arguments must not overlap.
// staged [copies, Hv, Dv, Dk] S: copies of slots that one sequence reads and another writes.
// out [tokens, Hv, Dv] T, or f32 (OUT_F32).
// cuSeqlens [n + 1]; readSlots, writeSlots [n] (GDM_SLOT_*; a write slot of -1 drops the final state).
// HAS_STORES: sequence s stores its state as stores[storeOffsets[s] .. storeOffsets[s + 1] - 1] say, into the pool or
// into snapshots [entries, Hv, Dv, Dk] S. RECORD: recordKey [tokens, Hk, Dk] and recordDelta [tokens, Hv, Dv], f32.
//
// Grid: (Dv / 8, Hv, n) threadgroups of GDM_DECODE_THREADS. A threadgroup holds 8 rows, a row 8 lanes (rows.h).
//
// 1. Read the row of the state into registers (zeros where the slot says so).
// 2. For each token: load and normalise its key and query (each row group for itself: no barrier, the same bits as
//    when prefill normalises them once), decay the row, update it, write its output.
// 3. Write the row to the write slot. A sequence of no tokens thereby copies its state.
//
// Formula: rows.h. A row is read and written by the same lanes, so read slot = write slot needs no copy.
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD.
#include "rows.h"

template <typename T, typename S, uint N>
[[max_total_threads_per_threadgroup(GDM_DECODE_THREADS)]]
kernel void gd_decode(device const T* query [[buffer(0)]],
                      device const T* key [[buffer(1)]],
                      device const T* value [[buffer(2)]],
                      device const float* gate [[buffer(3)]],
                      device const float* beta [[buffer(4)]],
                      device S* state [[buffer(5)]],
                      device const S* staged [[buffer(6)]],
                      device T* out [[buffer(7)]],
                      device const int* cuSeqlens [[buffer(8)]],
                      device const int* readSlots [[buffer(9)]],
                      device const int* writeSlots [[buffer(10)]],
                      device const uint* storeOffsets [[buffer(11)]],
                      device const GDMStore* stores [[buffer(12)]],
                      device S* snapshots [[buffer(13)]],
                      device float* recordKey [[buffer(14)]],
                      device float* recordDelta [[buffer(15)]],
                      constant GDMRecurrence& params [[buffer(16)]],
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
  bool recordsKey = row == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  Row<N> s;
  state_read(s, state, staged, readSlots[sequence], slotRows, slotRow, lane, keyDim);
  uint cursor = HAS_STORES ? storeOffsets[sequence] : 0;
  uint storesEnd = HAS_STORES ? storeOffsets[sequence + 1] : 0;

  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  for (int t = 0; t < count; ++t) {
    if (HAS_STORES) {
      state_stores(cursor, storesEnd, stores, t, state, snapshots, s, slotRows, slotRow, true, lane, keyDim);
    }
    ulong token = ulong(begin + t);
    Row<N> k;
    Row<N> q;
    row_load<T>(k, key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride), lane, keyDim);
    row_load<T>(q, query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride), lane, keyDim);
    row_normalise(k, keyDim, params.epsilon, 1.0f);
    row_normalise(q, keyDim, params.epsilon, params.scale);
    float v = float(value[token * params.valueTokenStride + ulong(valueHead) * params.valueHeadStride + row]);
    float b = beta[token * params.betaTokenStride + valueHead];
    ulong gateAt = token * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
    if (GATE_PER_KEY) {
      Row<N> decay;
      row_load<float>(decay, gate + gateAt, lane, keyDim);
      row_scale(s, decay);
    } else {
      row_scale(s, gate[gateAt]);
    }
    float delta = 0.0f;
    float o = row_step(s, k, q, v, b, delta, lane, keyDim);
    if (lane == 0) {
      write_wide(out, token * params.outTokenStride + ulong(valueHead) * params.outHeadStride + row, o, OUT_F32);
      if (RECORD) recordDelta[(token * valueHeads + valueHead) * valueDim + row] = delta;
    }
    if (RECORD && recordsKey) {
      row_store<float>(recordKey + (token * keyHeads + keyHead) * keyDim, k, lane, keyDim);
    }
  }

  if (HAS_STORES) {
    state_stores(cursor, storesEnd, stores, count, state, snapshots, s, slotRows, slotRow, true, lane, keyDim);
  }
  int slot = writeSlots[sequence];
  if (slot >= 0) state_write<S>(state, s, uint(slot), slotRows, slotRow, lane, keyDim);
}

// Names: gd_decode_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_decode_f32_f32_k64")]] kernel decltype(gd_decode<float, float, 2>) gd_decode<float, float, 2>;
template [[host_name("gd_decode_f32_f16_k64")]] kernel decltype(gd_decode<float, half, 2>) gd_decode<float, half, 2>;
template [[host_name("gd_decode_f32_bf16_k64")]] kernel decltype(gd_decode<float, bfloat, 2>) gd_decode<float, bfloat, 2>;
template [[host_name("gd_decode_f16_f32_k64")]] kernel decltype(gd_decode<half, float, 2>) gd_decode<half, float, 2>;
template [[host_name("gd_decode_f16_f16_k64")]] kernel decltype(gd_decode<half, half, 2>) gd_decode<half, half, 2>;
template [[host_name("gd_decode_f16_bf16_k64")]] kernel decltype(gd_decode<half, bfloat, 2>) gd_decode<half, bfloat, 2>;
template [[host_name("gd_decode_bf16_f32_k64")]] kernel decltype(gd_decode<bfloat, float, 2>) gd_decode<bfloat, float, 2>;
template [[host_name("gd_decode_bf16_f16_k64")]] kernel decltype(gd_decode<bfloat, half, 2>) gd_decode<bfloat, half, 2>;
template [[host_name("gd_decode_bf16_bf16_k64")]] kernel decltype(gd_decode<bfloat, bfloat, 2>) gd_decode<bfloat, bfloat, 2>;
template [[host_name("gd_decode_f32_f32_k128")]] kernel decltype(gd_decode<float, float, 4>) gd_decode<float, float, 4>;
template [[host_name("gd_decode_f32_f16_k128")]] kernel decltype(gd_decode<float, half, 4>) gd_decode<float, half, 4>;
template [[host_name("gd_decode_f32_bf16_k128")]] kernel decltype(gd_decode<float, bfloat, 4>) gd_decode<float, bfloat, 4>;
template [[host_name("gd_decode_f16_f32_k128")]] kernel decltype(gd_decode<half, float, 4>) gd_decode<half, float, 4>;
template [[host_name("gd_decode_f16_f16_k128")]] kernel decltype(gd_decode<half, half, 4>) gd_decode<half, half, 4>;
template [[host_name("gd_decode_f16_bf16_k128")]] kernel decltype(gd_decode<half, bfloat, 4>) gd_decode<half, bfloat, 4>;
template [[host_name("gd_decode_bf16_f32_k128")]] kernel decltype(gd_decode<bfloat, float, 4>) gd_decode<bfloat, float, 4>;
template [[host_name("gd_decode_bf16_f16_k128")]] kernel decltype(gd_decode<bfloat, half, 4>) gd_decode<bfloat, half, 4>;
template [[host_name("gd_decode_bf16_bf16_k128")]] kernel decltype(gd_decode<bfloat, bfloat, 4>) gd_decode<bfloat, bfloat, 4>;
template [[host_name("gd_decode_f32_f32_kany")]] kernel decltype(gd_decode<float, float, 8>) gd_decode<float, float, 8>;
template [[host_name("gd_decode_f32_f16_kany")]] kernel decltype(gd_decode<float, half, 8>) gd_decode<float, half, 8>;
template [[host_name("gd_decode_f32_bf16_kany")]] kernel decltype(gd_decode<float, bfloat, 8>) gd_decode<float, bfloat, 8>;
template [[host_name("gd_decode_f16_f32_kany")]] kernel decltype(gd_decode<half, float, 8>) gd_decode<half, float, 8>;
template [[host_name("gd_decode_f16_f16_kany")]] kernel decltype(gd_decode<half, half, 8>) gd_decode<half, half, 8>;
template [[host_name("gd_decode_f16_bf16_kany")]] kernel decltype(gd_decode<half, bfloat, 8>) gd_decode<half, bfloat, 8>;
template [[host_name("gd_decode_bf16_f32_kany")]] kernel decltype(gd_decode<bfloat, float, 8>) gd_decode<bfloat, float, 8>;
template [[host_name("gd_decode_bf16_f16_kany")]] kernel decltype(gd_decode<bfloat, half, 8>) gd_decode<bfloat, half, 8>;
template [[host_name("gd_decode_bf16_bf16_kany")]] kernel decltype(gd_decode<bfloat, bfloat, 8>) gd_decode<bfloat, bfloat, 8>;
