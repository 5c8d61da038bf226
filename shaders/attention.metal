// Attention, second of three kernels: one span of keys, or a pair of them, of some query rows that share a key head.
//
// query [tokens, heads, dim] f32, made ready by attention_prepare.metal. keyPages, valuePages [pages, keyHeads,
// pageTokens, dim] S. pageTable: rows of page numbers. tasks: at most GDM_ATTENTION_ROWS query rows each, and the first of
// their spans that threadgroup n takes, result n.
// partial [results, keyHeads, GDM_ATTENTION_ROWS, dim] f32 and sums [.. as partial without dim] (maximum, sum): what
// attention_combine.metal takes. Entries of rows that see none of a result's spans are left unchanged.
//
// A span is GDM_ATTENTION_SPAN keys from a multiple of that on. In a row, a score's order is that of rows.h; the sum of
// weights is ((w[l] + w[l + 32]) + (w[l + 64] + w[l + 96])) for lane l, and lanes by xor 1, 2, 4, 8, 16; values are one fma
// chain in ascending order from 0. Spans 2 i and 2 i + 1 are joined as in attention_softmax.h, here or when they are
// combined, as params.spans says. None of this depends on the rows of a group.
//
// Grid: (results, keyHeads) threadgroups of GDM_ATTENTION_THREADS.
// 1. Queries and the places of keys go to threadgroup memory. For each span: 2. scores: a simdgroup takes GDM_ATTENTION_KEYS keys
// at a time (dims of 64: twice as many, each half its own), with every row, and all of their sums by one tree; 3. weights: a
// simdgroup takes a row, a lane four keys; 4. values: a thread takes two neighbouring elements of some rows; those of several
// keys are asked for before the first is used, those of a span's first keys before step 3.
// A row takes nothing from a key after its own token. No function constants.
#include "attention_softmax.h"

// Lanes of a key, and rows whose values a thread has.
template <uint G> struct Spread {
  enum : uint { lanes = G == 16 ? 16 : 32, rows = G == 16 ? 1 : G == 32 ? 2 : 4 };
};

// A threadgroup's rows and their threadgroup memory.
struct AttentionRows {
  GDMAttentionTask task;
  uint rows;
  uint group;  // heads that share a key head
  uint dim;
  threadgroup float* queries;    // [GDM_ATTENTION_ROWS, GDM_MAX_DIM]
  threadgroup float* weights;    // [GDM_ATTENTION_SPAN, GDM_ATTENTION_ROWS]: scores, then weights
  threadgroup Factors* factors;  // [GDM_ATTENTION_ROWS], of a pair of spans
};

// The number of a span's keys that a row sees; its first is key `first`.
METAL_FUNC uint sees_of(thread const AttentionRows& of, uint row, uint first) {
  uint seen = row < of.rows ? seen_of(of.task, row, of.group) : 0;
  return seen > first ? min(seen - first, uint(GDM_ATTENTION_SPAN)) : 0;
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

// Of N sums N / 2 are left: a lane keeps those of its bit and gives the others away.
template <uint N> METAL_FUNC void halve(thread float* sum, uint lane, uint bit) {
  bool upper = (lane & bit) != 0;
  GDM_UNROLL for (uint i = 0; i < N / 2; ++i) {
    float kept = upper ? sum[2 * i + 1] : sum[2 * i];
    float given = upper ? sum[2 * i] : sum[2 * i + 1];
    sum[i] = kept + simd_shuffle_xor(given, ushort(bit));
  }
}

// Eight sums at once in the order of rows.h: the one of key key_of(lane) is left. Every lane of the simdgroup must call it.
template <uint L> METAL_FUNC float score_of(thread float* sum, uint lane) {
  static_assert(GDM_ATTENTION_KEYS == 8, "three steps leave one of eight sums");
  halve<8>(sum, lane, L > 16 ? 16 : 8);
  halve<4>(sum, lane, L > 16 ? 8 : 1);
  halve<2>(sum, lane, L > 16 ? 1 : 2);
  float score = sum[0];
  if (L > 16) score += simd_shuffle_xor(score, ushort(2));
  return score + simd_shuffle_xor(score, ushort(4));
}
template <uint L> METAL_FUNC uint key_of(uint lane) {
  if (L > 16) return (lane >> 4 & 1) + 2 * (lane >> 3 & 1) + 4 * (lane & 1);
  return (lane >> 3 & 1) + 2 * (lane & 1) + 4 * (lane >> 1 & 1);
}

// Step 2: the scores of a span's `count` keys, which lie in the rows `keyRows` of the pages. Whole simdgroups may have no
// keys; lanes without a key repeat the last one, unstored.
template <typename S, uint G>
METAL_FUNC void attention_scores(thread const AttentionRows& of, device const S* keyPages, threadgroup const uint* keyRows,
                                 uint count, uint index) {
  constexpr uint L = Spread<G>::lanes;
  constexpr uint keys = GDM_ATTENTION_KEYS;
  uint lane = index % L;
  for (uint from = index / GDM_SIMD_LANES * (keys * GDM_SIMD_LANES / L); from < count; from += GDM_ATTENTION_THREADS / L * keys) {
    uint key = from + index % GDM_SIMD_LANES / L * keys;
    Rows<L, G, keys> k;
    GDM_UNROLL for (uint u = 0; u < keys; ++u) {
      key_load<S>(k.row[u], keyPages + ulong(keyRows[min(key + u, count - 1)]) * of.dim, lane, of.dim);
    }
    uint own = key + key_of<L>(lane);
    bool writes = (lane & (L > 16 ? 6 : 4)) == 0 && own < count;
    for (uint row = 0; row < of.rows; ++row) {
      Row<L, G> q;
      row_load(q, of.queries + row * GDM_MAX_DIM, lane, of.dim);
      float sum[keys];
      GDM_UNROLL for (uint u = 0; u < keys; ++u) sum[u] = row_partial(k.row[u], q);
      float score = score_of<L>(sum, lane);
      if (writes) of.weights[own * GDM_ATTENTION_ROWS + row] = score;
    }
  }
}

// Step 3: turns the scores of the span at key `first` into weights, for this simdgroup's row; `part` becomes that of this span,
// or of both spans if it is the second of a pair.
METAL_FUNC void attention_weights(thread const AttentionRows& of, thread Part& part, uint first, bool second, uint index) {
  uint lane = index % GDM_SIMD_LANES;
  uint row = index / GDM_SIMD_LANES;
  uint sees = sees_of(of, row, first);
  if (sees == 0) return;  // the same in every lane
  Part own = weigh(of.weights + row, GDM_ATTENTION_ROWS, sees, lane);
  if (!second) {
    part = own;
    return;
  }
  Factors factors = join(part, own);
  if (lane == 0) of.factors[row] = factors;
}

// values <- values + weight value for some keys, in ascending order; WHOLE: every row sees all of them.
template <bool WHOLE, typename S, uint R, uint N>
METAL_FUNC void attend(thread float2* values, thread const typename Vec4<S>::pair* loaded, threadgroup const float* weights,
                       uint from, thread const uint* sees) {
  GDM_UNROLL for (uint j = 0; j < N; ++j) {
    float2 v = Vec4<S>::widen_pair(loaded[j]);
    threadgroup const float* of = weights + j * GDM_ATTENTION_ROWS;
    GDM_UNROLL for (uint i = 0; i < R; ++i) {
      float weight = R == 4 ? (*(threadgroup const float4*)of)[i] : of[i];
      if (WHOLE || from + j < sees[i]) values[i] = fma(float2(weight), v, values[i]);
    }
  }
}

// Some keys' values as stored, of two elements.
template <typename S> struct AskedValues {
  enum : uint { keys = sizeof(S) == 2 ? 64 : 16 };
  typename Vec4<S>::pair of[sizeof(S) == 2 ? 64 : 16];
};

// The values of keys from `from` on; past key last - 1 those of that key. `last` is not zero.
template <typename S>
METAL_FUNC void values_ask(thread AskedValues<S>& asked, device const S* valuePages, threadgroup const uint* keyRows, uint from,
                           uint last, uint dim, uint element) {
  GDM_UNROLL for (uint j = 0; j < AskedValues<S>::keys; ++j) {
    asked.of[j] = *(device const typename Vec4<S>::pair*)(valuePages + ulong(keyRows[min(from + j, last - 1)]) * dim + element);
  }
}

// Step 4: the values of the span at key `first`, for two elements of rows firstRow, firstRow + 1, ..., of which some see `last`
// keys. The first of these values have already been asked for.
template <typename S, uint R>
METAL_FUNC void attention_values(thread float2* values, thread AskedValues<S>& asked, thread const AttentionRows& of,
                                 device const S* valuePages, threadgroup const uint* keyRows, uint first, bool second,
                                 uint firstRow, uint element, uint last) {
  constexpr uint N = AskedValues<S>::keys;
  uint sees[R];
  uint least = GDM_ATTENTION_SPAN;
  float2 sum[R];
  GDM_UNROLL for (uint i = 0; i < R; ++i) {
    sum[i] = float2(0.0f);
    sees[i] = sees_of(of, firstRow + i, first);
    least = min(least, firstRow + i < of.rows ? sees[i] : uint(GDM_ATTENTION_SPAN));
  }
  for (uint from = 0; from < last; from += N) {
    threadgroup const float* weights = of.weights + (from * GDM_ATTENTION_ROWS + firstRow);
    if (from > 0) values_ask(asked, valuePages, keyRows, from, last, of.dim, element);
    if (from + N <= least) attend<true, S, R, N>(sum, asked.of, weights, from, sees);
    else attend<false, S, R, N>(sum, asked.of, weights, from, sees);
  }
  GDM_UNROLL for (uint i = 0; i < R; ++i) {
    if (!second) values[i] = sum[i];
    else if (sees[i] > 0) values[i] = joined(values[i], sum[i], of.factors[firstRow + i]);
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
                         uint2 place [[threadgroup_position_in_grid]],
                         uint index [[thread_index_in_threadgroup]]) {
  constexpr uint R = GDM_ATTENTION_ROWS;
  constexpr uint span = GDM_ATTENTION_SPAN;
  constexpr uint threads = GDM_ATTENTION_THREADS;
  constexpr uint each = Spread<G>::rows;
  static_assert(threads == R * GDM_SIMD_LANES, "a simdgroup has a row of the weights");
  static_assert(R * GDM_MAX_DIM <= 2 * each * threads || G < 64, "a thread has two elements of some rows");
  threadgroup float4 queryMemory[R * GDM_MAX_DIM / 4];
  threadgroup float4 weightMemory[span * R / 4];  // all rows of a key
  threadgroup Factors factors[R];
  threadgroup uint keyRows[2 * span];
  threadgroup float* queries = (threadgroup float*)queryMemory;

  uint keyHead = place.y;
  uint dim = G < 64 ? 4 * G : params.dim;
  uint group = params.heads / params.keyHeads;
  GDMAttentionTask task = tasks[place.x];
  uint rows = uint(task.rows);
  uint begin = uint(task.place) * span;
  uint end = min(seen_of(task, rows - 1, group), begin + params.spans * span);
  AttentionRows of = {task, rows, group, dim, queries, (threadgroup float*)weightMemory, factors};

  // 1. Missing rows have weights of zero, since all weights of a key are read together.
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
  for (uint i = index; i < span * R / 4; i += threads) weightMemory[i] = float4(0.0f);
  Part part = {-INFINITY, 0.0f};
  uint element = 2 * (index % (dim / 2));
  uint firstRow = index / (dim / 2) * each;  // of this thread's values; beyond the last if the dim leaves threads over
  float2 values[each];
  GDM_UNROLL for (uint i = 0; i < each; ++i) values[i] = float2(0.0f);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint first = begin; first < end; first += span) {
    threadgroup const uint* spanRows = keyRows + (first - begin);
    uint last = 0;
    GDM_UNROLL for (uint i = 0; i < each; ++i) last = max(last, sees_of(of, firstRow + i, first));
    attention_scores<S, G>(of, keyPages, spanRows, min(end - first, span), index);
    // Threads without rows ask, too: a condition would take more registers.
    AskedValues<S> asked;
    values_ask(asked, valuePages, spanRows, 0, max(last, 1u), dim, element);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    attention_weights(of, part, first, first > begin, index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    attention_values<S, each>(values, asked, of, valuePages, spanRows, first, first > begin, firstRow, element, last);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  ulong base = (ulong(place.x) * params.keyHeads + keyHead) * R;
  GDM_UNROLL for (uint i = 0; i < each; ++i) {
    uint row = firstRow + i;
    if (sees_of(of, row, begin) > 0) *(device float2*)(partial + (base + row) * dim + element) = values[i];
  }
  uint row = index / GDM_SIMD_LANES;
  if (index % GDM_SIMD_LANES == 0 && sees_of(of, row, begin) > 0) {
    sums[2 * (base + row)] = part.most;
    sums[2 * (base + row) + 1] = part.sum;
  }
}

// Names: gd_attention_<S>_<head dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TK(gd_attention)
