// Attention, second of three kernels: one span of keys of some query rows that share a key head.
//
// query [tokens, heads, dim] f32, made ready by attention_prepare.metal. keyPages, valuePages [pages, keyHeads,
// pageTokens, dim] S. pageTable: rows of page numbers. tasks: GDM_ATTENTION_ROWS query rows each, or fewer.
// partial [tasks, keyHeads, spans, GDM_ATTENTION_ROWS, dim] f32 and sums [.. as partial without dim] (maximum, sum): what
// attention_combine.metal takes. Entries of rows that see nothing of a span stay as they are.
//
// A row takes the keys of a span, GDM_ATTENTION_SPAN from a multiple of it on, in blocks of GDM_ATTENTION_BLOCK; with s a
// block's scores and m, l, v the results so far (Milakov and Gimelshein 2018):
//   m' = max(m, max s); c = exp(m - m'); p = exp(s - m'); l <- l c + sum p; v <- v c + sum p value; m <- m'
// Where all is -inf, exponents are taken from 0. A score's order is that of rows.h; a sum of p goes by xor 1, 2, 4, 8, 16
// of the key's number in its block; values are one fma chain in ascending order. None depends on the rows of a group.
//
// Grid: (spans, tasks, keyHeads) threadgroups of GDM_ATTENTION_THREADS. A span is walked GDM_ATTENTION_STRIP keys, several
// blocks, at a time, so that many keys and values are asked for at once and barriers are few.
// 1. Queries, and where the span's keys lie, to threadgroup memory. Of each strip: 2. scores: eight lanes a key, two keys
// at a time where registers allow it, with every row; 3. softmax, block by block: a simdgroup a row, a lane a key;
// 4. values: a thread an element of some rows, those of a block asked for before the first is used.
// A row takes nothing of a key behind its own token. No function constants.
#include "rows.h"

METAL_FUNC float largest(float a, float b) { return b > a ? b : a; }

// The number of a block's keys that a row sees.
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
  float weight = gd_exp_down(score - reference);
  float total = weight;
  total += simd_shuffle_xor(total, ushort(1));
  total += simd_shuffle_xor(total, ushort(2));
  total += simd_shuffle_xor(total, ushort(4));
  total += simd_shuffle_xor(total, ushort(8));
  total += simd_shuffle_xor(total, ushort(16));
  correction = gd_exp_down(most - reference);
  sum = fma(sum, correction, total);
  most = now;
  return weight;
}

// The value rows of a thread: all, or those of its set where a dim leaves threads for several.
template <uint G> struct ValueRows {
  enum : uint { each = G == 16 ? 2 : G == 32 ? 4 : 8 };
};

// values <- values + weight value for the keys of a block, in ascending order; WHOLE: every row sees all of them.
template <bool WHOLE, typename S, uint R>
METAL_FUNC void attend(thread float* values, thread const S* loaded, threadgroup const float* weights,
                       thread const uint* sees) {
  GDM_UNROLL for (uint j = 0; j < GDM_ATTENTION_BLOCK; ++j) {
    float v = float(loaded[j]);
    threadgroup const float* of = weights + j * GDM_ATTENTION_ROWS;
    GDM_UNROLL for (uint i = 0; i < R; ++i) {
      float weight = R % 4 == 0 ? ((threadgroup const float4*)of)[i / 4][i % 4] : of[i];
      if (WHOLE || j < sees[i]) values[i] = fma(weight, v, values[i]);
    }
  }
}

// A key's row: row_load in one step, which takes fewer instructions for dims other than 64 and 128.
template <typename S, uint L, uint G>
METAL_FUNC void key_load(thread Row<L, G>& row, device const S* p, uint lane, uint dim) {
  typedef typename Vec4<S>::type S4;
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    row.part[i] = row_holds<G>(column, dim) ? Vec4<S>::widen(*(device const S4*)(p + column)) : float4(0.0f);
  }
}

// A span for some query rows, with the threadgroup memory of its steps. A row of the softmax is a simdgroup's.
struct AttentionSpan {
  GDMAttentionTask task;
  uint rows;
  uint group;  // heads that share a key head
  uint dim;
  threadgroup float* queries;      // [GDM_ATTENTION_ROWS, GDM_MAX_DIM]
  threadgroup float* weights;      // [GDM_ATTENTION_STRIP, GDM_ATTENTION_ROWS]: scores, then weights
  threadgroup float* corrections;  // [blocks of a strip, GDM_ATTENTION_ROWS]
};

// Step 2: the scores of a strip's `count` keys, which lie in the rows `keyRows` of the pages. Whole simdgroups have none of the
// keys; lanes without one go with the last again, unstored.
template <typename S, uint G>
METAL_FUNC void attention_scores(thread const AttentionSpan& span, device const S* keyPages, threadgroup const uint* keyRows,
                                 uint count, uint index) {
  constexpr uint L = GDM_ATTENTION_LANES;
  constexpr uint turn = GDM_ATTENTION_THREADS / L;
  constexpr uint keys = G < 64 ? 2 : 1;
  uint lane = index % L;
  for (uint from = 0; from < GDM_ATTENTION_STRIP; from += keys * turn) {
    if (from + index / GDM_SIMD_LANES * (GDM_SIMD_LANES / L) >= count) break;
    uint key = from + index / L;
    Rows<L, G, keys> k;
    GDM_UNROLL for (uint u = 0; u < keys; ++u) {
      key_load<S>(k.row[u], keyPages + ulong(keyRows[min(key + u * turn, count - 1)]) * span.dim, lane, span.dim);
    }
    for (uint row = 0; row < span.rows; ++row) {
      Row<L, G> q;
      row_load(q, span.queries + row * GDM_MAX_DIM, lane, span.dim);
      GDM_UNROLL for (uint u = 0; u < keys; ++u) {
        float score = row_dot(k.row[u], q);
        if (lane == 0 && key + u * turn < count) span.weights[(key + u * turn) * GDM_ATTENTION_ROWS + row] = score;
      }
    }
  }
}

// Step 3: from the scores of the strip at key `first` to weights and corrections, for this simdgroup's row.
METAL_FUNC void attention_softmax(thread const AttentionSpan& span, thread float& most, thread float& sum, uint first,
                                  uint index) {
  constexpr uint R = GDM_ATTENTION_ROWS;
  constexpr uint B = GDM_ATTENTION_BLOCK;
  uint lane = index % GDM_SIMD_LANES;
  uint row = index / GDM_SIMD_LANES;
  for (uint block = 0; block < GDM_ATTENTION_STRIP / B; ++block) {
    uint sees = row < span.rows ? seen_of(span.task, row, span.group, first + block * B) : 0;
    if (sees == 0) break;  // the same in every lane
    float correction = 1.0f;
    float score = -INFINITY;
    threadgroup float* at = span.weights + (block * B + lane) * R + row;
    if (lane < sees) score = *at;
    *at = softmax_step(score, most, sum, correction);
    if (lane == 0) span.corrections[block * R + row] = correction;
  }
}

// Step 4: adds the strip's values to those of rows firstRow, firstRow + 1, ..., for one element.
template <typename S, uint R>
METAL_FUNC void attention_values(thread float* values, thread const AttentionSpan& span, device const S* valuePages,
                                 threadgroup const uint* keyRows, uint first, uint firstRow, uint element) {
  constexpr uint B = GDM_ATTENTION_BLOCK;
  for (uint block = 0; block < GDM_ATTENTION_STRIP / B; ++block) {
    uint sees[R];
    uint least = B;
    uint last = 0;
    GDM_UNROLL for (uint i = 0; i < R; ++i) {
      uint row = firstRow + i;
      sees[i] = row < span.rows ? seen_of(span.task, row, span.group, first + block * B) : 0;
      if (sees[i] > 0) values[i] *= span.corrections[block * GDM_ATTENTION_ROWS + row];
      last = max(last, sees[i]);
      least = min(least, row < span.rows ? sees[i] : B);
    }
    if (last == 0) break;
    threadgroup const float* weights = span.weights + (block * B * GDM_ATTENTION_ROWS + firstRow);
    S loaded[B];
    GDM_UNROLL for (uint j = 0; j < B; ++j) {
      loaded[j] = valuePages[ulong(keyRows[block * B + min(j, last - 1)]) * span.dim + element];
    }
    if (least == B) attend<true, S, R>(values, loaded, weights, sees);
    else attend<false, S, R>(values, loaded, weights, sees);
  }
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
  constexpr uint R = GDM_ATTENTION_ROWS;
  constexpr uint strip = GDM_ATTENTION_STRIP;
  constexpr uint threads = GDM_ATTENTION_THREADS;
  constexpr uint each = ValueRows<G>::each;
  static_assert(threads == R * GDM_SIMD_LANES, "a simdgroup has a row of the softmax");
  static_assert(R * GDM_MAX_DIM <= each * threads || G < 64, "a thread has an element of each row");
  threadgroup float4 queryMemory[R * GDM_MAX_DIM / 4];
  threadgroup float4 weightMemory[strip * R / 4];  // of a key all rows
  threadgroup float corrections[strip / GDM_ATTENTION_BLOCK * R];
  threadgroup uint keyRows[GDM_ATTENTION_SPAN];
  threadgroup float* queries = (threadgroup float*)queryMemory;

  uint keyHead = place.z;
  uint dim = G < 64 ? 4 * G : params.dim;
  uint group = params.heads / params.keyHeads;
  GDMAttentionTask task = tasks[place.y];
  uint rows = uint(task.rows);
  uint begin = place.x * GDM_ATTENTION_SPAN;
  uint all = uint(task.past) + (uint(task.firstRow) + rows - 1) / group + 1;
  if (begin >= all) return;  // the whole threadgroup
  uint end = min(all, begin + GDM_ATTENTION_SPAN);
  AttentionSpan span = {task, rows, group, dim, queries, (threadgroup float*)weightMemory, corrections};

  // 1. Rows that are not there have weights of zero, since all weights of a key are read together.
  for (uint i = index; i < rows * dim; i += threads) {
    uint row = i / dim;
    uint number = uint(task.firstRow) + row;
    ulong at = ulong(uint(task.firstToken) + number / group) * params.heads + (keyHead * group + number % group);
    queries[row * GDM_MAX_DIM + (i - row * dim)] = query[at * dim + (i - row * dim)];
  }
  for (uint i = index; i < end - begin; i += threads) {
    uint page = (begin + i) / params.pageTokens;
    uint number = uint(pageTable[uint(task.pages) + page]);
    keyRows[i] = (number * params.keyHeads + keyHead) * params.pageTokens + (begin + i - page * params.pageTokens);
  }
  for (uint i = index; i < strip * R / 4; i += threads) weightMemory[i] = float4(0.0f);
  float most = -INFINITY;
  float sum = 0.0f;
  uint element = index % dim;
  uint firstRow = index / dim * each;  // of this thread's values; beyond the last where the dim leaves threads over
  float values[each];
  GDM_UNROLL for (uint i = 0; i < each; ++i) values[i] = 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint first = begin; first < end; first += strip) {
    threadgroup const uint* stripRows = keyRows + (first - begin);
    attention_scores<S, G>(span, keyPages, stripRows, min(end - first, strip), index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    attention_softmax(span, most, sum, first, index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    attention_values<S, each>(values, span, valuePages, stripRows, first, firstRow, element);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  ulong base = ((ulong(place.y) * params.keyHeads + keyHead) * params.spans + place.x) * R;
  GDM_UNROLL for (uint i = 0; i < each; ++i) {
    uint row = firstRow + i;
    if (row < rows && seen_of(task, row, group, begin) > 0) partial[(base + row) * dim + element] = values[i];
  }
  uint row = index / GDM_SIMD_LANES;
  if (index % GDM_SIMD_LANES == 0 && row < rows && seen_of(task, row, group, begin) > 0) {
    sums[2 * (base + row)] = most;
    sums[2 * (base + row) + 1] = sum;
  }
}

// Names: gd_attention_<S>_<head dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TK(gd_attention)
