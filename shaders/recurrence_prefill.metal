// Gated delta rule, long sequences: blocks of tokens staged in threadgroup memory, then walked in order.
//
// Tensors, slots, stores and records as in recurrence_decode.metal, and the same bits: each row is held by the same
// eight lanes and goes through the same sums (rows.h). What differs is where keys and queries come from: a threadgroup
// of 32 rows loads and normalises each key and query once, instead of once a row.
//
// Grid: (ceil(Dv / 32), Hv, n) threadgroups of GDM_PREFILL_THREADS. The last threadgroup of a head may have groups
// beyond Dv: they start from zeros and write nothing, so that every lane takes part in every step.
//
// A block is B tokens: GDM_PREFILL_BLOCK, or GDM_PREFILL_BLOCK_ANY for kany. Threadgroup memory, in floats:
//   keys [B, Dk] | queries [B, Dk] | decays [B, Dk or 1] | betas [B] | values [B, 32] | outputs [B, 32]
// that is B (2 Dk + (GATE_PER_KEY ? Dk : 1) + 1 + 64); the host passes it, rounded up to 16 bytes;
// at most 28736 bytes (Dk = 128, GATE_PER_KEY).
//
// 1. Read the rows of the state into registers.
// 2. For each block: (a) stage keys and queries, normalised, one row group each; decays, betas and values.
//    (b) barrier; walk the tokens, leaving outputs in threadgroup memory. (c) barrier; write the outputs, coalesced.
// 3. Write the rows to the write slot.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD.
#include "rows.h"

template <typename T, typename S, uint N>
[[max_total_threads_per_threadgroup(GDM_PREFILL_THREADS)]]
kernel void gd_prefill(device const T* query [[buffer(0)]],
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
                       threadgroup float* memory [[threadgroup(0)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  constexpr uint block = N < 8 ? GDM_PREFILL_BLOCK : GDM_PREFILL_BLOCK_ANY;
  constexpr uint groups = GDM_PREFILL_THREADS / GDM_ROW_LANES;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint valueDim = params.valueDim;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  threadgroup float* keys = memory;
  threadgroup float* queries = keys + block * keyDim;
  threadgroup float* decays = queries + block * keyDim;
  threadgroup float* betas = decays + block * decayDim;
  threadgroup float* values = betas + block;
  threadgroup float* outputs = values + block * GDM_PREFILL_ROWS;

  uint lane = index % GDM_ROW_LANES;
  uint rowGroup = index / GDM_ROW_LANES;
  uint firstRow = group.x * GDM_PREFILL_ROWS;
  uint rows = min(uint(GDM_PREFILL_ROWS), valueDim - firstRow);
  bool valid = rowGroup < rows;
  uint row = firstRow + min(rowGroup, rows - 1);
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint slotRows = valueHeads * valueDim;
  uint slotRow = valueHead * valueDim + row;
  bool recordsKey = firstRow == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  Row<N> s;
  state_read(s, state, staged, valid ? readSlots[sequence] : GDM_SLOT_NONE, slotRows, slotRow, lane, keyDim);
  uint cursor = HAS_STORES ? storeOffsets[sequence] : 0;
  uint storesEnd = HAS_STORES ? storeOffsets[sequence + 1] : 0;

  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  for (int first = 0; first < count; first += int(block)) {
    uint tokens = min(block, uint(count - first));
    ulong base = ulong(begin + first);

    // (a) Item i is key i for i < block, else query i - block. Groups without one repeat a token's and store nothing.
    for (uint firstItem = 0; firstItem < 2 * block; firstItem += groups) {
      uint item = firstItem + rowGroup;
      bool isKey = item < block;
      uint slotOf = isKey ? item : item - block;
      ulong token = base + min(slotOf, tokens - 1);
      device const T* source =
          isKey ? key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride)
                : query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride);
      Row<N> x;
      row_load<T>(x, source, lane, keyDim);
      row_normalise(x, keyDim, params.epsilon, isKey ? 1.0f : params.scale);
      if (slotOf < tokens && item < 2 * block) {
        row_store((isKey ? keys : queries) + slotOf * keyDim, x, lane, keyDim);
        if (RECORD && recordsKey && isKey) {
          row_store<float>(recordKey + (token * keyHeads + keyHead) * keyDim, x, lane, keyDim);
        }
      }
    }
    for (uint i = index; i < tokens * decayDim; i += GDM_PREFILL_THREADS) {
      uint t = i / decayDim;
      ulong at = (base + t) * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
      decays[i] = gate[at + (i - t * decayDim)];
    }
    for (uint i = index; i < tokens; i += GDM_PREFILL_THREADS) {
      betas[i] = beta[(base + i) * params.betaTokenStride + valueHead];
    }
    for (uint i = index; i < tokens * GDM_PREFILL_ROWS; i += GDM_PREFILL_THREADS) {
      uint t = i / GDM_PREFILL_ROWS;
      uint r = min(i % GDM_PREFILL_ROWS, rows - 1);
      ulong at = (base + t) * params.valueTokenStride + ulong(valueHead) * params.valueHeadStride + firstRow + r;
      values[i] = float(value[at]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (b)
    for (uint t = 0; t < tokens; ++t) {
      if (HAS_STORES) {
        state_stores(cursor, storesEnd, stores, first + int(t), state, snapshots, s, slotRows, slotRow, valid, lane,
                     keyDim);
      }
      Row<N> k;
      Row<N> q;
      row_load(k, keys + t * keyDim, lane, keyDim);
      row_load(q, queries + t * keyDim, lane, keyDim);
      if (GATE_PER_KEY) {
        Row<N> decay;
        row_load(decay, decays + t * keyDim, lane, keyDim);
        row_scale(s, decay);
      } else {
        row_scale(s, decays[t]);
      }
      float delta = 0.0f;
      float o = row_step(s, k, q, values[t * GDM_PREFILL_ROWS + rowGroup], betas[t], delta, lane, keyDim);
      if (lane == 0) {
        outputs[t * GDM_PREFILL_ROWS + rowGroup] = o;
        if (RECORD && valid) recordDelta[((base + t) * valueHeads + valueHead) * valueDim + row] = delta;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (c) The next block's staging touches nothing that is read here.
    for (uint i = index; i < tokens * GDM_PREFILL_ROWS; i += GDM_PREFILL_THREADS) {
      uint t = i / GDM_PREFILL_ROWS;
      uint r = i % GDM_PREFILL_ROWS;
      ulong at = (base + t) * params.outTokenStride + ulong(valueHead) * params.outHeadStride + firstRow + r;
      if (r < rows) write_wide(out, at, outputs[i], OUT_F32);
    }
  }

  if (HAS_STORES) {
    state_stores(cursor, storesEnd, stores, count, state, snapshots, s, slotRows, slotRow, valid, lane, keyDim);
  }
  int slot = writeSlots[sequence];
  if (slot >= 0 && valid) state_write<S>(state, s, uint(slot), slotRows, slotRow, lane, keyDim);
}

// Names: gd_prefill_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_prefill_f32_f32_k64")]] kernel decltype(gd_prefill<float, float, 2>) gd_prefill<float, float, 2>;
template [[host_name("gd_prefill_f32_f16_k64")]] kernel decltype(gd_prefill<float, half, 2>) gd_prefill<float, half, 2>;
template [[host_name("gd_prefill_f32_bf16_k64")]] kernel decltype(gd_prefill<float, bfloat, 2>) gd_prefill<float, bfloat, 2>;
template [[host_name("gd_prefill_f16_f32_k64")]] kernel decltype(gd_prefill<half, float, 2>) gd_prefill<half, float, 2>;
template [[host_name("gd_prefill_f16_f16_k64")]] kernel decltype(gd_prefill<half, half, 2>) gd_prefill<half, half, 2>;
template [[host_name("gd_prefill_f16_bf16_k64")]] kernel decltype(gd_prefill<half, bfloat, 2>) gd_prefill<half, bfloat, 2>;
template [[host_name("gd_prefill_bf16_f32_k64")]] kernel decltype(gd_prefill<bfloat, float, 2>) gd_prefill<bfloat, float, 2>;
template [[host_name("gd_prefill_bf16_f16_k64")]] kernel decltype(gd_prefill<bfloat, half, 2>) gd_prefill<bfloat, half, 2>;
template [[host_name("gd_prefill_bf16_bf16_k64")]] kernel decltype(gd_prefill<bfloat, bfloat, 2>) gd_prefill<bfloat, bfloat, 2>;
template [[host_name("gd_prefill_f32_f32_k128")]] kernel decltype(gd_prefill<float, float, 4>) gd_prefill<float, float, 4>;
template [[host_name("gd_prefill_f32_f16_k128")]] kernel decltype(gd_prefill<float, half, 4>) gd_prefill<float, half, 4>;
template [[host_name("gd_prefill_f32_bf16_k128")]] kernel decltype(gd_prefill<float, bfloat, 4>) gd_prefill<float, bfloat, 4>;
template [[host_name("gd_prefill_f16_f32_k128")]] kernel decltype(gd_prefill<half, float, 4>) gd_prefill<half, float, 4>;
template [[host_name("gd_prefill_f16_f16_k128")]] kernel decltype(gd_prefill<half, half, 4>) gd_prefill<half, half, 4>;
template [[host_name("gd_prefill_f16_bf16_k128")]] kernel decltype(gd_prefill<half, bfloat, 4>) gd_prefill<half, bfloat, 4>;
template [[host_name("gd_prefill_bf16_f32_k128")]] kernel decltype(gd_prefill<bfloat, float, 4>) gd_prefill<bfloat, float, 4>;
template [[host_name("gd_prefill_bf16_f16_k128")]] kernel decltype(gd_prefill<bfloat, half, 4>) gd_prefill<bfloat, half, 4>;
template [[host_name("gd_prefill_bf16_bf16_k128")]] kernel decltype(gd_prefill<bfloat, bfloat, 4>) gd_prefill<bfloat, bfloat, 4>;
template [[host_name("gd_prefill_f32_f32_kany")]] kernel decltype(gd_prefill<float, float, 8>) gd_prefill<float, float, 8>;
template [[host_name("gd_prefill_f32_f16_kany")]] kernel decltype(gd_prefill<float, half, 8>) gd_prefill<float, half, 8>;
template [[host_name("gd_prefill_f32_bf16_kany")]] kernel decltype(gd_prefill<float, bfloat, 8>) gd_prefill<float, bfloat, 8>;
template [[host_name("gd_prefill_f16_f32_kany")]] kernel decltype(gd_prefill<half, float, 8>) gd_prefill<half, float, 8>;
template [[host_name("gd_prefill_f16_f16_kany")]] kernel decltype(gd_prefill<half, half, 8>) gd_prefill<half, half, 8>;
template [[host_name("gd_prefill_f16_bf16_kany")]] kernel decltype(gd_prefill<half, bfloat, 8>) gd_prefill<half, bfloat, 8>;
template [[host_name("gd_prefill_bf16_f32_kany")]] kernel decltype(gd_prefill<bfloat, float, 8>) gd_prefill<bfloat, float, 8>;
template [[host_name("gd_prefill_bf16_f16_kany")]] kernel decltype(gd_prefill<bfloat, half, 8>) gd_prefill<bfloat, half, 8>;
template [[host_name("gd_prefill_bf16_bf16_kany")]] kernel decltype(gd_prefill<bfloat, bfloat, 8>) gd_prefill<bfloat, bfloat, 8>;
