// Gated delta rule, long sequences: blocks of tokens staged in threadgroup memory, then walked in order.
//
// Tensors, slots, stores and records as in recurrence_decode.metal, with gates always resolved, and the same bits: every
// sum has the order of rows.h. What differs is where keys and queries come from: a threadgroup of 32 rows loads and
// normalises each key and query once, instead of once a lane group.
//
// Grid: (ceil(Dv / 32), Hv, n) threadgroups of GDM_PREFILL_THREADS, a row GDM_PREFILL_LANES. The last threadgroup of a
// head may have groups beyond Dv: they hold zeros and write nothing, so that every lane takes part in every step.
//
// A block is B = GDM_PREFILL_BLOCK tokens. Threadgroup memory, in floats:
//   keys [B, Dk] | queries [B, Dk] | decays [B, Dk or 1] | betas [B] | values [B, 32] | outputs [B, 32]
// that is B (2 Dk + (GATE_PER_KEY ? Dk : 1) + 1 + 64), 10.3 KB for Dk = 128: three threadgroups fit a core's 32 KB. The
// host passes it, rounded up to 16 bytes; at most 26688 bytes (Dk = 256, GATE_PER_KEY).
//
// A part of the tokens, [partFirst, partFirst + partTokens) of each sequence, is a dispatch of its own where an op would
// keep a GPU to itself for too long. PARTS: the state goes from part to part in `carried` [n, Hv, Dv, Dk] f32, whatever
// the state's dtype, so that the cuts change no bit.
//
// 1. Read the rows of the state into registers. Ask for the first block: sixteen lanes a key or query, one value a
//    thread, decays and betas.
// 2. For each block: (a) put what was asked for into threadgroup memory; barrier. (b) Ask for the next block into
//    registers; walk half of the tokens, leaving outputs in threadgroup memory; normalise what was asked for; walk the
//    other half; barrier. (c) Write the outputs, coalesced. OUT_AT_ONCE: walks write outputs themselves, four tokens at a
//    time, and (c) is not there; it takes more registers, and is for few threadgroups, which wait for their own steps.
// 3. Write the rows to the write slot.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD, PARTS, OUT_AT_ONCE.
#include "recurrence.h"

// The values of a block that a thread has asked for.
template <typename T, uint G> struct Asked {
  RowBits<T, GDM_PREFILL_STAGE_LANES, G> bits;  // of key or query `item`
  Row<GDM_PREFILL_STAGE_LANES, G> row;          // the same, normalised
  Row<GDM_PREFILL_STAGE_LANES, G> decay;        // of token `item`, GATE_PER_KEY
  T value;
  float gate;
  float beta;
};

// The inputs and outputs of a walk over a block, at this lane group's row.
template <typename T> struct Walk {
  threadgroup const float* keys;
  threadgroup const float* queries;
  threadgroup const float* decays;
  threadgroup const float* values;
  threadgroup float* outputs;
  threadgroup const float* betas;
  device T* out;
  ulong outAt;
  uint outStride;
  device float* recordDelta;
  ulong record;
  uint recordStride;
  int first;
};

// Tokens from .. end - 1; a COUNT other than 0 is their number.
template <uint COUNT, typename T, typename S, uint L, uint G>
METAL_FUNC void prefill_walk(thread States<S>& states, thread Rows<L, G, 1>& s, thread const Walk<T>& walk, uint from,
                             uint end, RowSet set) {
  uint keyDim = states.keyDim;
  uint count = COUNT > 0 ? COUNT : end - from;
  // Outputs of a known number of tokens wait in registers: a store between two tokens would keep the next one's key and
  // query from being loaded ahead of it. Every lane of a row has them all: OUT_AT_ONCE, lane i stores that of token i.
  static_assert(COUNT <= L, "a lane stores an output");
  float outputs[COUNT > 0 ? COUNT : 1];
  _Pragma("unroll 4") for (uint i = 0; i < count; ++i) {
    uint t = from + i;
    if (HAS_STORES) states_store(states, walk.first + int(t), s, set);
    Row<L, G> k;
    Row<L, G> q;
    row_load(k, walk.keys + t * keyDim, set.lane, keyDim);
    row_load(q, walk.queries + t * keyDim, set.lane, keyDim);
    if (GATE_PER_KEY) {
      Row<L, G> decay;
      row_load(decay, walk.decays + t * keyDim, set.lane, keyDim);
      rows_scale(s, decay);
    } else {
      rows_scale(s, walk.decays[t]);
    }
    Step<L, G, 1> step;
    step.value[0] = walk.values[t * GDM_PREFILL_ROWS];
    rows_step(s, k, q, step, walk.betas[t], set.lane, keyDim);
    if (set.lane == 0) {
      if (COUNT == 0 && !OUT_AT_ONCE) walk.outputs[t * GDM_PREFILL_ROWS] = step.out[0];
      if (COUNT == 0 && OUT_AT_ONCE && row_exists(set, 0)) {
        write_wide(walk.out, walk.outAt + ulong(t) * walk.outStride, step.out[0], OUT_F32);
      }
      if (RECORD && row_exists(set, 0)) walk.recordDelta[walk.record + ulong(t) * walk.recordStride] = step.delta[0];
    }
    outputs[COUNT > 0 ? i : 0] = step.out[0];
  }
  if (COUNT > 0 && !OUT_AT_ONCE && set.lane == 0) {
    GDM_UNROLL for (uint i = 0; i < (COUNT > 0 ? COUNT : 1); ++i) walk.outputs[(from + i) * GDM_PREFILL_ROWS] = outputs[i];
  }
  if (COUNT > 0 && OUT_AT_ONCE && set.lane < COUNT && row_exists(set, 0)) {
    float own = outputs[0];
    GDM_UNROLL for (uint i = 1; i < (COUNT > 0 ? COUNT : 1); ++i) own = set.lane == i ? outputs[i] : own;
    write_wide(walk.out, walk.outAt + ulong(from + set.lane) * walk.outStride, own, OUT_F32);
  }
}

template <typename T, typename S, uint G>
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
                       device float* carried [[buffer(16)]],
                       constant GDMRecurrence& params [[buffer(17)]],
                       constant GDMPart& part [[buffer(18)]],
                       threadgroup float* memory [[threadgroup(0)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  constexpr uint L = GDM_PREFILL_LANES;
  constexpr uint W = GDM_PREFILL_STAGE_LANES;
  constexpr uint block = GDM_PREFILL_BLOCK;
  static_assert(2 * block * W == GDM_PREFILL_THREADS, "a lane group stages one key or query");
  static_assert(block * GDM_PREFILL_ROWS == GDM_PREFILL_THREADS, "a thread stages one value");
  Recurrence<T, S> given = {query, key, value, out, state, staged, snapshots, readSlots, writeSlots, storeOffsets, stores};
  Records records = {recordKey, recordDelta};
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  threadgroup float* keys = memory;
  threadgroup float* queries = keys + block * keyDim;
  threadgroup float* decays = queries + block * keyDim;
  threadgroup float* values = decays + block * decayDim;
  threadgroup float* outputs = values + block * GDM_PREFILL_ROWS;
  threadgroup float* betas = outputs + block * GDM_PREFILL_ROWS;

  uint lane = index % L;
  uint rowGroup = index / L;
  uint firstRow = group.x * GDM_PREFILL_ROWS;
  uint rows = min(uint(GDM_PREFILL_ROWS), valueDim - firstRow);
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  bool recordsKey = firstRow == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  int start = PARTS ? int(part.first) : 0;
  int end = PARTS ? min(count, start + int(part.tokens)) : count;
  int readSlot = readSlots[sequence];
  int writeSlot = writeSlots[sequence];
  uint headRow = valueHead * valueDim;
  RowSet set = {headRow + firstRow + rowGroup, GDM_PREFILL_ROWS, headRow + valueDim, lane};
  States<S> states = states_of(given, sequence, valueHeads * valueDim, keyDim);
  if (start == 0 && (HAS_STORES || count == 0)) {
    states_begin<S, L, G, 1>(states, readSlot, writeSlot, count == 0, set);
  }
  if (start >= count) return;

  Rows<L, G, 1> s;
  ulong carriedAt = (ulong(sequence) * states.slotRows + row_of(set, 0)) * keyDim;
  if (!PARTS || start == 0) states_read(s, states, readSlot, set);
  else if (row_exists(set, 0)) row_load<float>(s.row[0], carried + carriedAt, lane, keyDim);
  else row_zero(s.row[0]);
  while (PARTS && HAS_STORES && states.next < states.end && stores[states.next].tokens < start) ++states.next;

  // Item i is key i for i < block, else query i - block.
  uint item = index / W;
  uint wide = index % W;
  bool isKey = item < block;
  uint slotOf = isKey ? item : item - block;
  device const T* source = isKey ? key_of(given, params, 0, keyHead) : query_of(given, params, 0, keyHead);
  uint sourceStride = isKey ? params.keyTokenStride : params.queryTokenStride;
  device const T* valueSource = value_of(given, params, 0, valueHead) + (firstRow + min(index % GDM_PREFILL_ROWS, rows - 1));
  device const float* gateSource = gate + gate_at(params, 0, valueHead);
  device const float* betaSource = beta + beta_at(params, 0, valueHead);

  Asked<T, G> asked;
  for (int first = start - int(block); first < end; first += int(block)) {
    // (a) The values asked for one block ago.
    uint tokens = 0;
    if (first >= start) {
      tokens = min(block, uint(end - first));
      if (slotOf < tokens) {
        row_store((isKey ? keys : queries) + slotOf * keyDim, asked.row, wide, keyDim);
        if (GATE_PER_KEY && isKey) row_store(decays + slotOf * keyDim, asked.decay, wide, keyDim);
        if (RECORD && recordsKey && isKey) {
          ulong at = ulong(begin + first) + slotOf;
          row_store<float>(records.key + (at * keyHeads + keyHead) * keyDim, asked.row, wide, keyDim);
        }
      }
      values[index] = float(asked.value);
      if (!GATE_PER_KEY && index < block) decays[index] = asked.gate;
      if (index < block) betas[index] = asked.beta;
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // (b) Tokens past the end repeat the last.
    if (first + int(block) < end) {
      uint last = uint(end - 1 - (first + int(block)));
      ulong base = ulong(begin + first + int(block));
      device const T* from = source + (base + min(slotOf, last)) * sourceStride;
      if (sizeof(T) == 2) row_ask(asked.bits, from, wide, keyDim);
      else row_load<T>(asked.row, from, wide, keyDim);
      asked.value = valueSource[(base + min(index / GDM_PREFILL_ROWS, last)) * params.valueTokenStride];
      if (GATE_PER_KEY) {
        row_load<float>(asked.decay, gateSource + (base + min(slotOf, last)) * params.gateTokenStride, wide, keyDim);
      } else {
        asked.gate = gateSource[(base + min(index % block, last)) * params.gateTokenStride];
      }
      asked.beta = betaSource[(base + min(index % block, last)) * params.betaTokenStride];
    }
    if (first < start) {
      if (sizeof(T) == 2) row_widen(asked.row, asked.bits);
      row_normalise(asked.row, keyDim, params.epsilon, isKey ? 1.0f : params.scale);
      continue;
    }
    Walk<T> walk = {keys, queries, decays, values + rowGroup, outputs + rowGroup, betas, out, 0, params.outTokenStride,
                    records.delta, 0, valueHeads * valueDim, first};
    walk.outAt = out_at(params, ulong(begin + first), valueHead) + firstRow + rowGroup;
    if (RECORD) walk.record = (ulong(begin + first) * valueHeads + valueHead) * valueDim + firstRow + rowGroup;
    if (tokens == block) prefill_walk<block / 2>(states, s, walk, 0, block / 2, set);
    else prefill_walk<0>(states, s, walk, 0, tokens, set);
    // The values asked for have arrived; the latency of their norm hides behind the second half.
    if (first + int(block) < end) {
      if (sizeof(T) == 2) row_widen(asked.row, asked.bits);
      row_normalise(asked.row, keyDim, params.epsilon, isKey ? 1.0f : params.scale);
    }
    if (tokens == block) prefill_walk<block / 2>(states, s, walk, block / 2, block, set);
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (c) The next block's staging touches nothing that is read here.
    uint t = index / GDM_PREFILL_ROWS;
    uint r = index % GDM_PREFILL_ROWS;
    if (!OUT_AT_ONCE && t < tokens && r < rows) {
      write_wide(out, out_at(params, ulong(begin + first) + t, valueHead) + firstRow + r, outputs[index], OUT_F32);
    }
  }

  if (PARTS && end < count) {
    if (row_exists(set, 0)) row_store<float>(carried + carriedAt, s.row[0], lane, keyDim);
    return;
  }
  if (HAS_STORES) states_store(states, count, s, set);
  if (writeSlot >= 0) states_write(states, state, uint(writeSlot), s, set);
}

// Names: gd_prefill_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_prefill)
