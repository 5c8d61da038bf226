// Attention, second of three kernels, by simdgroup matrices: products "matrix". One span of keys of some query rows.
//
// Arguments, results and spans: as in attention.metal, with GDM_MATRIX_ROWS query rows per task and one span per threadgroup.
// Scores and values are sums, in ascending order, over products of 8 × 8 matrices, whose own order Metal leaves open; the sum of a
// row's weights has attention.metal's order. Weights of keys that a row does not see are zeros, as are values past the last key.
// Zero times NaN or infinity is NaN: for keys that only some of the rows see, such elements are zeros in the matrices, too, and
// are added later to the rows that see them.
//
// Grid: (results, keyHeads) threadgroups of GDM_ATTENTION_THREADS. Threadgroup memory, in floats:
//   staged [span, 20], or [span / 2, 36] | queries [GDM_MATRIX_ROWS, 20] | weights [GDM_MATRIX_ROWS, span + 4]
// 1. Scores: 16 columns of all keys and queries at a time; a simdgroup 16 rows by 32 keys. 2. Weights: a simdgroup four rows, a
// lane four keys. 3. Values: 32 columns of half of the keys at a time; a simdgroup 16 rows by eight columns. 4. Elements that
// the matrices lack, if there are any: a thread per row and column.
// No function constants.
#include "attention_softmax.h"

#include <metal_simdgroup_matrix>

enum : uint { MATRIX_DEEP = 20, MATRIX_WIDE = 36, MATRIX_WEIGHTS = GDM_ATTENTION_SPAN + 4 };

// Eight elements of a page's row, from column `at`; zeros beyond the row, and if there is no row.
template <typename S>
METAL_FUNC void eight_stage(threadgroup float* to, device const S* row, bool exists, uint at, uint dim) {
  typedef typename Vec4<S>::type S4;
  GDM_UNROLL for (uint i = 0; i < 8; i += 4) {
    float4 v = exists && at + i < dim ? Vec4<S>::widen(*(device const S4*)(row + at + i)) : float4(0.0f);
    *(threadgroup float4*)(to + i) = v;
  }
}

METAL_FUNC bool is_finite(float x) { return (as_type<uint>(x) & 0x7f800000u) != 0x7f800000u; }

// Sets those of eight elements that are not finite to zero; returns whether there are any.
METAL_FUNC bool eight_clear(threadgroup float* at) {
  bool found = false;
  GDM_UNROLL for (uint i = 0; i < 8; ++i) {
    if (is_finite(at[i])) continue;
    at[i] = 0.0f;
    found = true;
  }
  return found;
}

template <typename S>
[[max_total_threads_per_threadgroup(GDM_ATTENTION_THREADS)]]
kernel void gd_attention_matrix(device const float* query [[buffer(0)]],
                                device const S* keyPages [[buffer(1)]],
                                device const S* valuePages [[buffer(2)]],
                                device const int* pageTable [[buffer(3)]],
                                device const GDMAttentionTask* tasks [[buffer(4)]],
                                device float* partial [[buffer(5)]],
                                device float* sums [[buffer(6)]],
                                constant GDMAttention& params [[buffer(7)]],
                                uint2 place [[threadgroup_position_in_grid]],
                                uint index [[thread_index_in_threadgroup]]) {
  constexpr uint R = GDM_MATRIX_ROWS;
  constexpr uint span = GDM_ATTENTION_SPAN;
  static_assert(R == 32 && span == 128 && GDM_ATTENTION_THREADS == 256, "the shares of simdgroups and threads");
  threadgroup float4 stagedMemory[span * MATRIX_DEEP / 4];
  threadgroup float4 queryMemory[R * MATRIX_DEEP / 4];
  threadgroup float4 weightMemory[R * MATRIX_WEIGHTS / 4];
  threadgroup uint keyRows[span];
  threadgroup uint cleared[GDM_ATTENTION_THREADS / GDM_SIMD_LANES];
  threadgroup float* staged = (threadgroup float*)stagedMemory;
  threadgroup float* queries = (threadgroup float*)queryMemory;
  threadgroup float* weights = (threadgroup float*)weightMemory;

  uint lane = index % GDM_SIMD_LANES;
  uint simdgroup = index / GDM_SIMD_LANES;
  uint keyHead = place.y;
  uint dim = params.dim;
  uint group = params.heads / params.keyHeads;
  GDMAttentionTask task = tasks[place.x];
  uint rows = uint(task.rows);
  uint begin = uint(task.place) * span;
  uint count = min(seen_of(task, rows - 1, group) - begin, span);
  uint least = seen_of(task, 0, group);
  uint common = min(max(least, begin) - begin, count);  // keys that all rows see
  if (index < count) {
    uint page = (begin + index) / params.pageTokens;
    uint number = uint(pageTable[uint(task.pages) + page]);
    keyRows[index] = (number * params.keyHeads + keyHead) * params.pageTokens + (begin + index - page * params.pageTokens);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  // 1.
  uint own = index / 2;
  uint run = 8 * (index % 2);
  device const S* keyRow = keyPages + ulong(keyRows[min(own, count - 1)]) * dim;
  uint number = uint(task.firstRow) + min(own, rows - 1);
  device const float* queryRow = query +
      (ulong(uint(task.firstToken) + number / group) * params.heads + (keyHead * group + number % group)) * dim;
  uint firstRow = simdgroup % 2 * 16;
  uint firstKey = simdgroup / 2 * 32;
  simdgroup_float8x8 score[8];
  GDM_UNROLL for (uint i = 0; i < 8; ++i) score[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  for (uint first = 0; first < dim; first += 16) {
    eight_stage(staged + own * MATRIX_DEEP + run, keyRow, own < count, first + run, dim);
    if (own < R) eight_stage(queries + own * MATRIX_DEEP + run, queryRow, own < rows, first + run, dim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    GDM_UNROLL for (uint k = 0; k < 16; k += 8) {
      simdgroup_float8x8 q[2];
      GDM_UNROLL for (uint i = 0; i < 2; ++i) simdgroup_load(q[i], queries + (firstRow + 8 * i) * MATRIX_DEEP + k, MATRIX_DEEP);
      GDM_UNROLL for (uint j = 0; j < 4; ++j) {
        simdgroup_float8x8 keys;
        simdgroup_load(keys, staged + (firstKey + 8 * j) * MATRIX_DEEP + k, MATRIX_DEEP, ulong2(0, 0), true);
        GDM_UNROLL for (uint i = 0; i < 2; ++i) simdgroup_multiply_accumulate(score[4 * i + j], q[i], keys, score[4 * i + j]);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  GDM_UNROLL for (uint i = 0; i < 2; ++i) {
    GDM_UNROLL for (uint j = 0; j < 4; ++j) {
      simdgroup_store(score[4 * i + j], weights + (firstRow + 8 * i) * MATRIX_WEIGHTS + firstKey + 8 * j, MATRIX_WEIGHTS);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  // 2.
  ulong base = (ulong(place.x) * params.keyHeads + keyHead) * R;
  for (uint row = simdgroup; row < R; row += GDM_ATTENTION_THREADS / GDM_SIMD_LANES) {
    uint seen = row < rows ? seen_of(task, row, group) : 0;
    uint sees = seen > begin ? min(seen - begin, span) : 0;
    Part part = weigh(weights + row * MATRIX_WEIGHTS, 1, sees, lane);
    if (lane == 0 && sees > 0) {
      sums[2 * (base + row)] = part.most;
      sums[2 * (base + row) + 1] = part.sum;
    }
  }

  // 3.
  firstRow = simdgroup / 4 * 16;
  uint column = simdgroup % 4 * 8;
  own = index / 4;
  run = 8 * (index % 4);
  bool found = false;
  for (uint first = 0; first < dim; first += 32) {
    simdgroup_float8x8 sum[2];
    GDM_UNROLL for (uint i = 0; i < 2; ++i) sum[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint from = 0; from < count; from += span / 2) {
      // All threads are done with what was staged before; the weights are there, too.
      threadgroup_barrier(mem_flags::mem_threadgroup);
      uint key = from + own;
      eight_stage(staged + own * MATRIX_WIDE + run, valuePages + ulong(keyRows[min(key, count - 1)]) * dim, key < count,
                  first + run, dim);
      if (key >= common && eight_clear(staged + own * MATRIX_WIDE + run)) found = true;
      threadgroup_barrier(mem_flags::mem_threadgroup);
      GDM_UNROLL for (uint k = 0; k < span / 2; k += 8) {
        simdgroup_float8x8 values;
        simdgroup_load(values, staged + k * MATRIX_WIDE + column, MATRIX_WIDE);
        GDM_UNROLL for (uint i = 0; i < 2; ++i) {
          simdgroup_float8x8 w;
          simdgroup_load(w, weights + (firstRow + 8 * i) * MATRIX_WEIGHTS + from + k, MATRIX_WEIGHTS);
          simdgroup_multiply_accumulate(sum[i], w, values, sum[i]);
        }
      }
    }
    if (first + column < dim) {
      GDM_UNROLL for (uint i = 0; i < 2; ++i) {
        simdgroup_store(sum[i], partial + (base + firstRow + 8 * i) * dim + first + column, dim);
      }
    }
  }

  // 4.
  if (common == count) return;  // the whole threadgroup
  found = simd_any(found);
  if (lane == 0) cleared[simdgroup] = found ? 1 : 0;
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  uint all = 0;
  for (uint i = 0; i < GDM_ATTENTION_THREADS / GDM_SIMD_LANES; ++i) all |= cleared[i];
  if (all == 0) return;
  for (uint i = index; i < rows * dim; i += GDM_ATTENTION_THREADS) {
    uint row = i / dim;
    uint element = i - row * dim;
    uint sees = min(max(seen_of(task, row, group), begin) - begin, count);
    device float* at = partial + (base + row) * dim + element;
    float sum = *at;
    for (uint key = common; key < sees; ++key) {
      float value = float(valuePages[ulong(keyRows[key]) * dim + element]);
      if (!is_finite(value)) sum = fma(weights[row * MATRIX_WEIGHTS + key], value, sum);
    }
    *at = sum;
  }
}

// Names: gd_attention_matrix_<S>.
GDM_INSTANTIATE_T(gd_attention_matrix)
