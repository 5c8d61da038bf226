// Attention, second of three kernels: one span of keys of some query rows that share a key head.
//
// query [tokens, heads, dim] f32, made ready by attention_prepare.metal. keyPages, valuePages [pages, keyHeads,
// pageTokens, dim] S. pageTable: rows of page numbers. tasks: GDM_ATTENTION_ROWS query rows each, or fewer.
// partial [tasks, keyHeads, spans, GDM_ATTENTION_ROWS, dim] f32 and sums [.. as partial without dim] (maximum, sum): what
// attention_combine.metal takes. Entries of rows that see nothing of a span stay as they are.
//
// A row takes the keys of a span, GDM_ATTENTION_SPAN from a multiple of it on, in blocks of GDM_ATTENTION_BLOCK; with s a
// block's scores and m, l, v what was found so far (Milakov and Gimelshein 2018):
//   m' = max(m, max s); c = exp(m - m'); p = exp(s - m'); l <- l c + sum p; v <- v c + sum p value; m <- m'
// Where all is -inf, exponents are taken from 0. A score's order is that of rows.h; a sum of p goes by xor 1, 2, 4, 8, 16
// of the key's number in its block; values are one fma chain in ascending order. None depends on the rows of a group.
//
// Grid: (spans, tasks, keyHeads) threadgroups of GDM_ATTENTION_THREADS.
// 1. Queries to threadgroup memory. Of each block: 2. where its keys lie; 3. scores: eight lanes a key, with every row;
// 4. softmax: a simdgroup a row, a lane a key; 5. values: a thread four neighbouring elements of some rows.
// A row reads nothing of a key behind its own token. No function constants.
#include "rows.h"

METAL_FUNC float largest(float a, float b) { return b > a ? b : a; }

// How many of a block's keys a row sees.
METAL_FUNC uint seen_of(GDMAttentionTask task, uint row, uint group, uint first) {
  uint seen = uint(task.past) + (uint(task.firstRow) + row) / group + 1;
  return seen > first ? min(seen - first, uint(GDM_ATTENTION_BLOCK)) : 0;
}

// Moves one row's maximum and sum on by a block. Every lane of the simdgroup must call it; the lane's weight comes back.
METAL_FUNC float softmax_step(float score, thread float& most, thread float& sum, thread float& correction) {
  float now = score;
  now = largest(now, simd_shuffle_xor(now, ushort(1)));
  now = largest(now, simd_shuffle_xor(now, ushort(2)));
  now = largest(now, simd_shuffle_xor(now, ushort(4)));
  now = largest(now, simd_shuffle_xor(now, ushort(8)));
  now = largest(now, simd_shuffle_xor(now, ushort(16)));
  now = largest(most, now);
  float reference = now == -INFINITY ? 0.0f : now;
  float weight = gd_exp(score - reference);
  float total = weight;
  total += simd_shuffle_xor(total, ushort(1));
  total += simd_shuffle_xor(total, ushort(2));
  total += simd_shuffle_xor(total, ushort(4));
  total += simd_shuffle_xor(total, ushort(8));
  total += simd_shuffle_xor(total, ushort(16));
  correction = gd_exp(most - reference);
  sum = fma(sum, correction, total);
  most = now;
  return weight;
}

template <typename S, uint G>
[[max_total_threads_per_threadgroup(GDM_ATTENTION_THREADS)]]
kernel void gd_attention(device const float* query [[buffer(0)]],
                         device const S* keyPages [[buffer(1)]],
                         device const S* valuePages [[buffer(2)]],
                         device const int* pageTable [[buffer(3)]],
                         device const GDMAttentionTask* tasks [[buffer(4)]],
                         device float* partial [[buffer(5)]],
                         device float* sums [[buffer(6)]],
                         constant GDMAttention& params [[buffer(7)]],
                         uint3 place [[threadgroup_position_in_grid]],
                         uint index [[thread_index_in_threadgroup]]) {
  constexpr uint L = GDM_ATTENTION_LANES;
  constexpr uint R = GDM_ATTENTION_ROWS;
  constexpr uint B = GDM_ATTENTION_BLOCK;
  constexpr uint simdgroups = GDM_ATTENTION_THREADS / GDM_SIMD_LANES;
  typedef typename Vec4<S>::type S4;
  threadgroup float queries[R * GDM_MAX_DIM];
  threadgroup float weights[R * B];
  threadgroup float corrections[R];
  threadgroup uint keyRows[B];

  uint span = place.x;
  uint keyHead = place.z;
  uint dim = G < 64 ? 4 * G : params.dim;
  uint group = params.heads / params.keyHeads;
  GDMAttentionTask task = tasks[place.y];
  uint rows = uint(task.rows);
  uint begin = span * GDM_ATTENTION_SPAN;
  uint all = uint(task.past) + (uint(task.firstRow) + rows - 1) / group + 1;
  if (begin >= all) return;  // the whole threadgroup
  uint end = min(all, begin + GDM_ATTENTION_SPAN);

  for (uint i = index; i < rows * dim; i += GDM_ATTENTION_THREADS) {
    uint row = i / dim;
    uint number = uint(task.firstRow) + row;
    ulong at = ulong(uint(task.firstToken) + number / group) * params.heads + (keyHead * group + number % group);
    queries[row * GDM_MAX_DIM + (i - row * dim)] = query[at * dim + (i - row * dim)];
  }

  uint lane = index % GDM_SIMD_LANES;
  uint simdgroup = index / GDM_SIMD_LANES;
  // Softmax: rows simdgroup, simdgroup + 4. Values: elements 4 quad .. + 3 of rows set, set + sets, ...
  float most[R / simdgroups];
  float sum[R / simdgroups];
  GDM_UNROLL for (uint i = 0; i < R / simdgroups; ++i) {
    most[i] = -INFINITY;
    sum[i] = 0.0f;
  }
  uint quads = dim / 4;
  uint sets = GDM_ATTENTION_THREADS / quads;  // at least 2
  uint quad = index % quads;
  uint set = index / quads;
  float4 values[R / 2];
  GDM_UNROLL for (uint i = 0; i < R / 2; ++i) values[i] = float4(0.0f);

  for (uint first = begin; first < end; first += B) {
    uint count = min(end - first, B);
    if (index < count) {
      uint token = first + index;
      uint page = token / params.pageTokens;
      uint number = uint(pageTable[uint(task.pages) + page]);
      keyRows[index] = (number * params.keyHeads + keyHead) * params.pageTokens + (token - page * params.pageTokens);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint turn = 0; turn < B; turn += GDM_ATTENTION_THREADS / L) {
      uint key_ = turn + index / L;
      // Whole simdgroups have none of the block's keys; others go with the last one again, unstored.
      if (turn + simdgroup * (GDM_SIMD_LANES / L) >= count) continue;
      Row<L, G> k;
      row_load<S>(k, keyPages + ulong(keyRows[min(key_, count - 1)]) * dim, lane % L, dim);
      for (uint row = 0; row < rows; ++row) {
        Row<L, G> q;
        row_load(q, queries + row * GDM_MAX_DIM, lane % L, dim);
        float score = row_dot(k, q);
        if (lane % L == 0 && key_ < count) weights[row * B + key_] = score;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    GDM_UNROLL for (uint i = 0; i < R / simdgroups; ++i) {
      uint row = simdgroup + i * simdgroups;
      uint sees = row < rows ? seen_of(task, row, group, first) : 0;
      if (sees > 0) {  // the same in every lane
        float correction = 1.0f;
        float score = -INFINITY;
        if (lane < sees) score = weights[row * B + lane];
        float weight = softmax_step(score, most[i], sum[i], correction);
        weights[row * B + lane] = weight;
        if (lane == 0) corrections[row] = correction;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    uint sees[R / 2];
    uint most_ = 0;
    GDM_UNROLL for (uint i = 0; i < R / 2; ++i) {
      uint row = set + i * sets;
      sees[i] = set < sets && row < rows ? seen_of(task, row, group, first) : 0;
      if (sees[i] > 0) values[i] *= corrections[row];
      most_ = max(most_, sees[i]);
    }
    for (uint j = 0; j < most_; ++j) {
      float4 v = Vec4<S>::widen(*(device const S4*)(valuePages + (ulong(keyRows[j]) * dim + 4 * quad)));
      GDM_UNROLL for (uint i = 0; i < R / 2; ++i) {
        if (j < sees[i]) values[i] = fma(float4(weights[(set + i * sets) * B + j]), v, values[i]);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  ulong base = ((ulong(place.y) * params.keyHeads + keyHead) * params.spans + span) * R;
  GDM_UNROLL for (uint i = 0; i < R / 2; ++i) {
    uint row = set + i * sets;
    if (set < sets && row < rows && seen_of(task, row, group, begin) > 0) {
      *(device float4*)(partial + ((base + row) * dim + 4 * quad)) = values[i];
    }
  }
  GDM_UNROLL for (uint i = 0; i < R / simdgroups; ++i) {
    uint row = simdgroup + i * simdgroups;
    if (lane == 0 && row < rows && seen_of(task, row, group, begin) > 0) {
      sums[2 * (base + row)] = most[i];
      sums[2 * (base + row) + 1] = sum[i];
    }
  }
}

// Names: gd_attention_<S>_<head dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TK(gd_attention)
