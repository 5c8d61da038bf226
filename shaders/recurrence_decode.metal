// Gated delta rule, decode and short sequences: every lane group walks its sequence's tokens on its own.
//
// query, key [tokens, Hk, Dk] T; value [tokens, Hv, Dv] T; strides of tokens and heads in elements, multiples of 8.
// gate [tokens, Hv] f32 decay in [0, 1], or [tokens, Hv, Dk] (GATE_PER_KEY); beta [tokens, Hv] f32. RESOLVE_GATES: gate,
// beta, aLog [Hv] and dtBias [Hv] as gates.metal takes them, one gate per head.
// state [slots, Hv, Dv, Dk] S, read and written in place: one argument, since kernel arguments must not overlap.
// staged [copies, Hv, Dv, Dk] S: copies of slots that one sequence reads and another writes.
// out [tokens, Hv, Dv] T, or f32 (OUT_F32).
// cuSeqlens [n + 1]; readSlots, writeSlots [n] (GDM_SLOT_*; a write slot of -1 drops the final state). SMALL_BATCH: all
// three in `batch`, a constant of the dispatch, since no state can be asked for before its slot is known.
// HAS_STORES: sequence s stores its state as stores[storeOffsets[s] .. storeOffsets[s + 1] - 1] say, into the pool or
// into snapshots [entries, Hv, Dv, Dk] S. RECORD: recordKey [tokens, Hk, Dk] and recordDelta [tokens, Hv, Dv], f32.
//
// Grid: (ceil(Dv / rows), Hv, n) threadgroups; rows, threads and lanes by the state's dtype: GDM_DECODE_* in params.h.
// 16-bit states have a form with more rows (TILE_ROWS), for value dims that are whole threadgroups of them: it takes more
// registers, and the host uses the other form if the pipeline would have few threads, so threads have no bound here. A lane
// group holds several rows, so that a key and a query are loaded and normalised once for all of them, and keeps as many
// loads in flight as a GPU needs to reach the speed of its memory.
//
// 1. Ask for the rows of the state (zeros if the slot says so).
// 2. For each token: load and normalise its key and query (each lane group for itself: no barrier, the same bits as
//    when prefill normalises them once), decay the rows, update them, write their outputs.
// 3. Write the rows to the write slot. A sequence of no tokens moves its state there as bits.
//
// Formula: rows.h. A row is read and written by the same lanes, so read slot = write slot needs no copy.
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD, SMALL_BATCH, RESOLVE_GATES, TILE_ROWS;
// where gates are resolved, those of gates.metal.
#include "gates.h"
#include "recurrence.h"

// The kernel's arguments, in the form that its parts take.
template <typename T, typename S> struct Decode {
  Recurrence<T, S> with;
  Records records;
  device const int* cuSeqlens;
  device const ushort* gate;
  device const ushort* beta;
  device const ushort* aLog;
  device const ushort* dtBias;
};

// A threadgroup's share, R rows per lane group.
template <uint R, uint G, typename T, typename S>
METAL_FUNC void decode_rows(thread const Decode<T, S>& given, constant GDMRecurrence& params, constant GDMBatch& batch,
                            uint3 group, uint index) {
  constexpr uint L = DecodeShape<S, G>::lanes;
  constexpr uint apart = DecodeShape<S, G>::threads / L;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint lane = index % L;
  uint firstRow = group.x * (apart * R) + index / L;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  bool recordsKey = firstRow == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  int readSlot = SMALL_BATCH ? batch.readSlots[sequence] : given.with.readSlots[sequence];
  int writeSlot = SMALL_BATCH ? batch.writeSlots[sequence] : given.with.writeSlots[sequence];
  int begin = SMALL_BATCH ? batch.starts[sequence] : given.cuSeqlens[sequence];
  int count = (SMALL_BATCH ? batch.starts[sequence + 1] : given.cuSeqlens[sequence + 1]) - begin;
  uint headRow = valueHead * valueDim;
  uint limit = R == DecodeShape<S, G>::rows ? decode_limit<S, G>(headRow + valueDim) : 0;
  RowSet set = {headRow + firstRow, apart, limit, lane};
  States<S> states = states_of(given.with, sequence, valueHeads * valueDim, keyDim);
  if (HAS_STORES || count == 0) states_begin<S, L, G, R>(states, readSlot, writeSlot, count == 0, set);
  if (count == 0) return;

  Rows<L, G, R> s;
  states_read(s, states, readSlot, set);
  for (int t = 0; t < count; ++t) {
    if (HAS_STORES) states_store(states, t, s, set);
    ulong token = ulong(begin + t);
    Row<L, G> k;
    Row<L, G> q;
    row_load<T>(k, key_of(given.with, params, token, keyHead), lane, keyDim);
    row_load<T>(q, query_of(given.with, params, token, keyHead), lane, keyDim);
    device const T* values = value_of(given.with, params, token, valueHead);
    Step<L, G, R> step;
    GDM_UNROLL for (uint r = 0; r < R; ++r) step.value[r] = float(values[row_of(set, r) - headRow]);
    ulong gateAt = gate_at(params, token, valueHead);
    ulong betaAt = beta_at(params, token, valueHead);
    float b = RESOLVE_GATES ? beta_read(given.beta, betaAt) : ((device const float*)given.beta)[betaAt];
    float a = 1.0f;
    if (RESOLVE_GATES) a = gate_read(given.gate, gateAt, given.aLog, valueHead, given.dtBias, valueHead, params.bound);
    else if (!GATE_PER_KEY) a = ((device const float*)given.gate)[gateAt];
    if (sizeof(S) == 2) {
      // With as many rows as 16-bit states have, this is faster.
      row_normalise(k, keyDim, params.epsilon, 1.0f);
      row_normalise(q, keyDim, params.epsilon, params.scale);
    } else {
      rows_normalise(k, q, lane, keyDim, params.epsilon, params.scale);
    }
    if (GATE_PER_KEY) {
      Row<L, G> decay;
      row_load<float>(decay, (device const float*)given.gate + gateAt, lane, keyDim);
      rows_scale(s, decay);
    } else {
      rows_scale(s, a);
    }
    rows_step(s, k, q, step, b, lane, keyDim);
    ulong outAt = out_at(params, token, valueHead);
    GDM_UNROLL for (uint r = 0; r < R; ++r) {
      if (lane == 0 && row_exists(set, r)) {
        uint row = row_of(set, r) - headRow;
        write_wide(given.with.out, outAt + row, step.out[r], OUT_F32);
        if (RECORD) given.records.delta[(token * valueHeads + valueHead) * valueDim + row] = step.delta[r];
      }
    }
    if (RECORD && recordsKey) {
      row_store<float>(given.records.key + (token * keyHeads + keyHead) * keyDim, k, lane, keyDim);
    }
  }

  if (HAS_STORES) states_store(states, count, s, set);
  if (writeSlot >= 0) states_write(states, given.with.state, uint(writeSlot), s, set);
}

template <typename T, typename S, uint G>
kernel void gd_decode(device const T* query [[buffer(0)]],
                      device const T* key [[buffer(1)]],
                      device const T* value [[buffer(2)]],
                      device const ushort* gate [[buffer(3)]],
                      device const ushort* beta [[buffer(4)]],
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
                      device const ushort* aLog [[buffer(16)]],
                      device const ushort* dtBias [[buffer(17)]],
                      constant GDMRecurrence& params [[buffer(18)]],
                      constant GDMBatch& batch [[buffer(19)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint index [[thread_index_in_threadgroup]]) {
  Decode<T, S> given = {{query, key, value, out, state, staged, snapshots, readSlots, writeSlots, storeOffsets, stores},
                        {recordKey, recordDelta},
                        cuSeqlens,
                        gate,
                        beta,
                        aLog,
                        dtBias};
  if (sizeof(S) == 2 && TILE_ROWS == DecodeShape<S, G>::most) {
    decode_rows<DecodeShape<S, G>::most, G>(given, params, batch, group, index);
  } else {
    decode_rows<DecodeShape<S, G>::rows, G>(given, params, batch, group, index);
  }
}

// Names: gd_decode_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_decode)
