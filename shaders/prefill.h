// How prefill spreads its work, and its walk over the tokens of a block: recurrence_prefill.metal.
//
// A lane group has R = 1 or 2 rows of the state. Two rows share a key and a query read from threadgroup memory, and one tree
// computes their sums: where two are left, a lane keeps that of its row and gives the other away, so that in the end even
// lanes have the sum of the first row and odd lanes that of the second. Each is the sum of rows.h.
#ifndef GATED_DELTA_SHADERS_PREFILL_H
#define GATED_DELTA_SHADERS_PREFILL_H

#include "recurrence.h"

// R rows per lane group, blocks of B tokens: threads of a threadgroup, lanes that stage a key or query, keys and queries of a
// lane group, values of a thread.
template <uint R, uint B> struct PrefillShape {
  enum : uint {
    threads = GDM_PREFILL_ROWS * GDM_PREFILL_LANES / R,
    lanes = 2 * B * 16 <= threads ? 16 : 8,
    items = 2 * B * lanes / threads,
    values = B * GDM_PREFILL_ROWS / threads,
    apart = GDM_PREFILL_ROWS / R  // rows between those of a lane group
  };
};

// The dot products of R rows and one other row: this lane gets that of row lane % R. Every lane of the simdgroup must call it.
template <uint L, uint G, uint R>
METAL_FUNC float rows_dot(thread const Rows<L, G, R>& a, thread const Row<L, G>& b, uint lane) {
  static_assert(L == 8 && (R == 1 || R == 2), "sums between lanes go by xor 1, 2, 4");
  float sum[R];
  GDM_UNROLL for (uint r = 0; r < R; ++r) sum[r] = row_partial(a.row[r], b);
  bool odd = R == 2 && lane % 2 != 0;
  float kept = odd ? sum[R - 1] : sum[0];
  float given = odd ? sum[0] : sum[R - 1];
  float total = kept + simd_shuffle_xor(given, ushort(1));
  total += simd_shuffle_xor(total, ushort(2));
  total += simd_shuffle_xor(total, ushort(4));
  return total;
}

// The inputs and outputs of a walk over a block, at this lane's row.
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
  bool exists;  // whether the row does
};

// One token; returns the output of this lane's row.
template <typename T, typename S, uint L, uint G, uint R>
METAL_FUNC float prefill_token(thread States<S>& states, thread Rows<L, G, R>& s, thread const Walk<T>& walk, uint t,
                               RowSet set) {
  uint keyDim = states.keyDim;
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
  float delta = walk.betas[t] * (walk.values[t * GDM_PREFILL_ROWS] - rows_dot(s, k, set.lane));
  float other = R == 2 ? simd_shuffle_xor(delta, ushort(1)) : delta;
  bool odd = set.lane % 2 != 0;
  row_add(s.row[0], R == 2 && odd ? other : delta, k, set.lane, keyDim);
  if (R == 2) row_add(s.row[R - 1], odd ? delta : other, k, set.lane, keyDim);
  if (RECORD && set.lane < R && walk.exists) walk.recordDelta[walk.record + ulong(t) * walk.recordStride] = delta;
  return rows_dot(s, q, set.lane);
}

// Tokens from .. from + 3. Their outputs wait in registers: a store between two tokens would keep the next one's key and
// query from being loaded ahead of it. OUT_AT_ONCE: lane n stores the one of token n / R and its own row.
template <typename T, typename S, uint L, uint G, uint R>
METAL_FUNC void prefill_four(thread States<S>& states, thread Rows<L, G, R>& s, thread const Walk<T>& walk, uint from,
                             RowSet set) {
  static_assert(4 * R <= L, "a lane stores an output");
  float outputs[4];
  GDM_UNROLL for (uint i = 0; i < 4; ++i) outputs[i] = prefill_token(states, s, walk, from + i, set);
  if (!OUT_AT_ONCE && set.lane < R) {
    GDM_UNROLL for (uint i = 0; i < 4; ++i) walk.outputs[(from + i) * GDM_PREFILL_ROWS] = outputs[i];
  }
  if (OUT_AT_ONCE && set.lane < 4 * R && walk.exists) {
    float own = outputs[0];
    GDM_UNROLL for (uint i = 1; i < 4; ++i) own = set.lane / R == i ? outputs[i] : own;
    write_wide(walk.out, walk.outAt + ulong(from + set.lane / R) * walk.outStride, own, OUT_F32);
  }
}

// Tokens from .. end - 1, one by one.
template <typename T, typename S, uint L, uint G, uint R>
METAL_FUNC void prefill_rest(thread States<S>& states, thread Rows<L, G, R>& s, thread const Walk<T>& walk, uint end,
                             RowSet set) {
  for (uint t = 0; t < end; ++t) {
    float output = prefill_token(states, s, walk, t, set);
    if (!OUT_AT_ONCE && set.lane < R) walk.outputs[t * GDM_PREFILL_ROWS] = output;
    if (OUT_AT_ONCE && set.lane < R && walk.exists) {
      write_wide(walk.out, walk.outAt + ulong(t) * walk.outStride, output, OUT_F32);
    }
  }
}

#endif
