// Gated delta rule, long sequences: blocks of tokens staged in threadgroup memory, then walked in order.
//
// Tensors, slots, stores and records as in recurrence_decode.metal, with gates always resolved, and the same bits: every
// sum has the order of rows.h. Only the source of keys and queries differs: a threadgroup of 32 rows loads and
// normalises each key and query once, instead of once per lane group.
//
// Grid: (ceil(Dv / 32), Hv, n) threadgroups, GDM_PREFILL_LANES a lane group of TILE_ROWS rows (prefill.h): 256 threads, or
// 128 with two rows. The last threadgroup of a head may have rows beyond Dv: they are zeros and are not written, so that
// every lane takes part in every step.
//
// A block is B = GDM_PREFILL_BLOCK tokens, or OUT_AT_ONCE and for key dims of 64 and 128 twice as many. Threadgroup memory, in
// floats:
//   keys [B, Dk] | queries [B, Dk] | decays [B, Dk or 1] | betas [B] | values [B, 32] | outputs [B, 32]
// that is B (2 Dk + (GATE_PER_KEY ? Dk : 1) + 1 + 64), 10.3 KB for B = 8 and Dk = 128: three threadgroups fit a core's 32 KB.
// The host passes it, rounded up to 16 bytes; at most 28736 bytes (B = 16, Dk = 128, GATE_PER_KEY).
//
// A part of the tokens, [partFirst, partFirst + partTokens) of each sequence, is a separate dispatch if an op would
// keep a GPU to itself for too long. PARTS: the state goes from part to part in `carried` [n, Hv, Dv, Dk] f32, whatever
// the state's dtype, so that the cuts change no bit.
//
// 1. Read the rows of the state into registers. Ask for the first block: 8 or 16 lanes per key or query, then values, decays
//    and betas.
// 2. For each block: (a) put what was asked for into threadgroup memory; barrier. (b) Ask for the next block into
//    registers; walk half of the tokens, leaving outputs in threadgroup memory; normalise what was asked for; walk the
//    other half; barrier. (c) Write the outputs, coalesced. OUT_AT_ONCE: walks write outputs themselves, four tokens at a
//    time, and there is no (c); it takes more registers, and is for few threadgroups, which wait for their own steps.
// 3. Write the rows to the write slot.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD, PARTS, OUT_AT_ONCE, TILE_ROWS.
#include "prefill.h"

// The kernel's arguments, in the form that its parts take.
template <typename T, typename S> struct Prefill {
  Recurrence<T, S> with;
  Records records;
  device const int* cuSeqlens;
  device const float* gate;
  device const float* beta;
  device float* carried;
};

// The values of a block that a thread has asked for.
template <typename T, uint G, uint R, uint B> struct Asked {
  RowBits<T, PrefillShape<R, B>::lanes, G> bits[PrefillShape<R, B>::items];  // of keys or queries
  Row<PrefillShape<R, B>::lanes, G> row[PrefillShape<R, B>::items];          // the same, normalised
  Row<PrefillShape<R, B>::lanes, G> decay[PrefillShape<R, B>::items];        // of those tokens, GATE_PER_KEY
  T value[PrefillShape<R, B>::values];
  float gate;
  float beta;
};

// Normalises the keys and queries that were asked for, once they have arrived.
template <typename T, uint G, uint R, uint B>
METAL_FUNC void asked_normalise(thread Asked<T, G, R, B>& asked, constant GDMRecurrence& params, uint own, uint keyDim) {
  typedef PrefillShape<R, B> Shape;
  GDM_UNROLL for (uint u = 0; u < Shape::items; ++u) {
    bool isKey = own + u * (Shape::threads / Shape::lanes) < B;
    if (sizeof(T) == 2) row_widen(asked.row[u], asked.bits[u]);
    row_normalise(asked.row[u], keyDim, params.epsilon, isKey ? 1.0f : params.scale);
  }
}

// A threadgroup's share, R rows per lane group, blocks of B tokens.
template <uint R, uint B, uint G, typename T, typename S>
METAL_FUNC void prefill_rows(thread const Prefill<T, S>& given, constant GDMRecurrence& params, constant GDMPart& part,
                             threadgroup float* memory, uint3 group, uint index) {
  typedef PrefillShape<R, B> Shape;
  constexpr uint L = GDM_PREFILL_LANES;
  constexpr uint W = Shape::lanes;
  constexpr uint items = Shape::items;
  constexpr uint threads = Shape::threads;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  threadgroup float* keys = memory;
  threadgroup float* queries = keys + B * keyDim;
  threadgroup float* decays = queries + B * keyDim;
  threadgroup float* values = decays + B * decayDim;
  threadgroup float* outputs = values + B * GDM_PREFILL_ROWS;
  threadgroup float* betas = outputs + B * GDM_PREFILL_ROWS;

  uint lane = index % L;
  uint rowGroup = index / L;
  uint firstRow = group.x * GDM_PREFILL_ROWS;
  uint rows = min(uint(GDM_PREFILL_ROWS), valueDim - firstRow);
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  bool recordsKey = firstRow == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  int begin = given.cuSeqlens[sequence];
  int count = given.cuSeqlens[sequence + 1] - begin;
  int start = PARTS ? int(part.first) : 0;
  int end = PARTS ? min(count, start + int(part.tokens)) : count;
  int readSlot = given.with.readSlots[sequence];
  int writeSlot = given.with.writeSlots[sequence];
  uint headRow = valueHead * valueDim;
  RowSet set = {headRow + firstRow + rowGroup, Shape::apart, headRow + valueDim, lane};
  States<S> states = states_of(given.with, sequence, valueHeads * valueDim, keyDim);
  if (start == 0 && (HAS_STORES || count == 0)) {
    states_begin<S, L, G, R>(states, readSlot, writeSlot, count == 0, set);
  }
  if (start >= count) return;

  Rows<L, G, R> s;
  device float* carried = given.carried + ulong(sequence) * states.slotRows * keyDim;
  if (!PARTS || start == 0) {
    states_read(s, states, readSlot, set);
  } else {
    GDM_UNROLL for (uint r = 0; r < R; ++r) {
      if (row_exists(set, r)) row_load<float>(s.row[r], carried + ulong(row_of(set, r)) * keyDim, lane, keyDim);
      else row_zero(s.row[r]);
    }
  }
  while (PARTS && HAS_STORES && states.next < states.end && given.with.stores[states.next].tokens < start) ++states.next;

  // Item i is key i for i < B, else query i - B.
  uint own = index / W;
  uint wide = index % W;
  device const T* keySource = key_of(given.with, params, 0, keyHead);
  device const T* querySource = query_of(given.with, params, 0, keyHead);
  device const T* valueSource = value_of(given.with, params, 0, valueHead) + (firstRow + min(index % GDM_PREFILL_ROWS, rows - 1));
  device const float* gateSource = given.gate + gate_at(params, 0, valueHead);
  device const float* betaSource = given.beta + beta_at(params, 0, valueHead);
  uint ownRow = rowGroup + lane % R * Shape::apart;

  Asked<T, G, R, B> asked;
  for (int first = start - int(B); first < end; first += int(B)) {
    // (a) The values asked for one block ago.
    uint tokens = 0;
    if (first >= start) {
      tokens = min(B, uint(end - first));
      GDM_UNROLL for (uint u = 0; u < items; ++u) {
        uint item = own + u * (threads / W);
        bool isKey = item < B;
        uint t = item % B;
        if (t < tokens) {
          row_store((isKey ? keys : queries) + t * keyDim, asked.row[u], wide, keyDim);
          if (GATE_PER_KEY && isKey) row_store(decays + t * keyDim, asked.decay[u], wide, keyDim);
          if (RECORD && recordsKey && isKey) {
            row_store<float>(given.records.key + ((ulong(begin + first) + t) * keyHeads + keyHead) * keyDim, asked.row[u],
                             wide, keyDim);
          }
        }
      }
      GDM_UNROLL for (uint u = 0; u < Shape::values; ++u) values[index + u * threads] = float(asked.value[u]);
      if (!GATE_PER_KEY && index < B) decays[index] = asked.gate;
      if (index < B) betas[index] = asked.beta;
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // (b) Tokens past the end repeat the last.
    bool more = first + int(B) < end;
    if (more) {
      uint last = uint(end - 1 - (first + int(B)));
      ulong base = ulong(begin + first + int(B));
      GDM_UNROLL for (uint u = 0; u < items; ++u) {
        uint item = own + u * (threads / W);
        bool isKey = item < B;
        ulong token = base + min(item % B, last);
        device const T* from = isKey ? keySource + token * params.keyTokenStride : querySource + token * params.queryTokenStride;
        if (sizeof(T) == 2) row_ask(asked.bits[u], from, wide, keyDim);
        else row_load<T>(asked.row[u], from, wide, keyDim);
        if (GATE_PER_KEY) row_load<float>(asked.decay[u], gateSource + token * params.gateTokenStride, wide, keyDim);
      }
      GDM_UNROLL for (uint u = 0; u < Shape::values; ++u) {
        uint t = (index + u * threads) / GDM_PREFILL_ROWS;
        asked.value[u] = valueSource[(base + min(t, last)) * params.valueTokenStride];
      }
      ulong token = base + min(index % B, last);
      if (!GATE_PER_KEY) asked.gate = gateSource[token * params.gateTokenStride];
      asked.beta = betaSource[token * params.betaTokenStride];
    }
    if (first < start) {
      asked_normalise(asked, params, own, keyDim);
      continue;
    }
    Walk<T> walk = {keys, queries, decays, values + ownRow, outputs + ownRow, betas, given.with.out, 0,
                    params.outTokenStride, given.records.delta, 0, valueHeads * valueDim, first, row_exists(set, lane % R)};
    walk.outAt = out_at(params, ulong(begin + first), valueHead) + firstRow + ownRow;
    if (RECORD) walk.record = (ulong(begin + first) * valueHeads + valueHead) * valueDim + firstRow + ownRow;
    if (tokens == B) {
      for (uint t = 0; t < B / 2; t += 4) prefill_four(states, s, walk, t, set);
    } else {
      prefill_rest(states, s, walk, tokens, set);
    }
    // The values asked for have arrived; the latency of their norm hides behind the second half.
    if (more) asked_normalise(asked, params, own, keyDim);
    if (tokens == B) {
      for (uint t = B / 2; t < B; t += 4) prefill_four(states, s, walk, t, set);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (c) The next block's staging touches nothing that is read here.
    if (!OUT_AT_ONCE) {
      uint r = index % GDM_PREFILL_ROWS;
      GDM_UNROLL for (uint u = 0; u < Shape::values; ++u) {
        uint t = (index + u * threads) / GDM_PREFILL_ROWS;
        if (t < tokens && r < rows) {
          ulong at = out_at(params, ulong(begin + first) + t, valueHead) + firstRow + r;
          write_wide(given.with.out, at, outputs[index + u * threads], OUT_F32);
        }
      }
    }
  }

  if (PARTS && end < count) {
    GDM_UNROLL for (uint r = 0; r < R; ++r) {
      if (row_exists(set, r)) row_store<float>(carried + ulong(row_of(set, r)) * keyDim, s.row[r], lane, keyDim);
    }
    return;
  }
  if (HAS_STORES) states_store(states, count, s, set);
  if (writeSlot >= 0) states_write(states, given.with.state, uint(writeSlot), s, set);
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
  Prefill<T, S> given = {{query, key, value, out, state, staged, snapshots, readSlots, writeSlots, storeOffsets, stores},
                         {recordKey, recordDelta},
                         cuSeqlens,
                         gate,
                         beta,
                         carried};
  constexpr uint B = GDM_PREFILL_BLOCK;
  constexpr uint most = G < 64 ? 2 * B : B;
  constexpr uint pair = G < 64 ? 2 : 1;
  if (TILE_ROWS == 2) {
    if (OUT_AT_ONCE) prefill_rows<pair, most, G>(given, params, part, memory, group, index);
    else prefill_rows<pair, B, G>(given, params, part, memory, group, index);
  } else {
    if (OUT_AT_ONCE) prefill_rows<1, most, G>(given, params, part, memory, group, index);
    else prefill_rows<1, B, G>(given, params, part, memory, group, index);
  }
}

// Names: gd_prefill_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_prefill)
