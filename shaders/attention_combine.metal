// Attention, last of three kernels: a row's spans become its output.
//
//   M = max of all m;  V = sum of v exp(m - M);  L = sum of l exp(m - M);  out = V / L (sigmoid(gate))
// over the row's pairs of spans, with (m, l, v) as in attention_softmax.h; a last span without a second is a pair by itself.
// Chain c, of GDM_ATTENTION_CHAINS, takes pairs c, c + 8, ... in ascending order by fma, from 0; chains that have a pair
// are added in ascending order. The order depends only on a row's number of keys.
//
// partial, sums and tasks as attention.metal leaves them, and for each task the place of its first result. gate, out
// [tokens, heads, dim] T, strides in elements; out T or f32 (OUT_F32).
//
// Grid: (tasks, keyHeads, params.rows) threadgroups, one row each: a simdgroup takes a chain, or several if there are fewer
// simdgroups, a lane four elements or twice as many, and GDM_ATTENTION_AHEAD pairs are read before the first is used.
// Function constants: OUT_F32.
#include "attention_softmax.h"

// Elements 4 l .. 4 l + 3 and 128 + 4 l .. of lane l, and what they belong to.
struct Result {
  float4 lower;
  float4 upper;
  Part part;
};

// One result, from its place in rows.
METAL_FUNC void result_read(thread Result& result, device const float* partial, device const float* sums, ulong at, uint lane,
                            uint dim) {
  uint i = 4 * lane;
  result.lower = float4(0.0f);
  result.upper = float4(0.0f);
  if (i < dim) result.lower = *(device const float4*)(partial + (at * dim + i));
  if (i + 128 < dim) result.upper = *(device const float4*)(partial + (at * dim + i + 128));
  result.part.most = sums[2 * at];
  result.part.sum = sums[2 * at + 1];
}

// Where a row's results are: result r at first + r apart.
struct Results {
  device const float* partial;
  device const float* sums;
  ulong first;
  ulong apart;
  uint spans;
  uint pairs;
  uint dim;
};

// Pairs of a chain that are read together, from results of SPANS spans.
template <uint SPANS> struct Batch {
  enum : uint { pairs = SPANS == 1 ? GDM_ATTENTION_AHEAD - 1 : GDM_ATTENTION_AHEAD };
  Result result[pairs * (2 / SPANS)];
};

template <uint SPANS>
METAL_FUNC void batch_read(thread Batch<SPANS>& batch, thread const Results& of, uint pair, uint lane) {
  constexpr uint each = 2 / SPANS;
  GDM_UNROLL for (uint j = 0; j < Batch<SPANS>::pairs; ++j) {
    uint p = min(pair + j * GDM_ATTENTION_CHAINS, of.pairs - 1);
    GDM_UNROLL for (uint e = 0; e < each; ++e) {
      uint r = each == 1 ? p : min(2 * p + e, of.spans - 1);
      result_read(batch.result[j * each + e], of.partial, of.sums, of.first + r * of.apart, lane, of.dim);
    }
  }
}

template <uint SPANS>
METAL_FUNC void batch_add(thread Result& total, thread Batch<SPANS>& batch, thread const Results& of, uint pair, float reference) {
  constexpr uint each = 2 / SPANS;
  GDM_UNROLL for (uint j = 0; j < Batch<SPANS>::pairs; ++j) {
    uint p = pair + j * GDM_ATTENTION_CHAINS;
    if (p < of.pairs) {
      Result result = batch.result[j * each];
      if (each == 2 && 2 * p + 1 < of.spans) {
        Factors factors = join(result.part, batch.result[j * each + each - 1].part);
        result.lower = joined(result.lower, batch.result[j * each + each - 1].lower, factors);
        result.upper = joined(result.upper, batch.result[j * each + each - 1].upper, factors);
      }
      float weight = gd_exp_down(result.part.most - reference);
      total.lower = fma(result.lower, float4(weight), total.lower);
      total.upper = fma(result.upper, float4(weight), total.upper);
      total.part.sum = fma(result.part.sum, weight, total.part.sum);
    }
  }
}

// Sums the chains of this simdgroup into threadgroup memory. The first pairs are asked for before the maximum is known.
template <uint SPANS>
METAL_FUNC void chains_take(threadgroup float4* totals, threadgroup float* lengths, thread const Results& of, uint simdgroup,
                            uint simdgroups, uint lane) {
  uint chains = min(uint(GDM_ATTENTION_CHAINS), of.pairs);
  if (simdgroup >= chains) return;
  Batch<SPANS> batch;
  batch_read(batch, of, simdgroup, lane);
  uint results = (of.spans + SPANS - 1) / SPANS;
  float most = -INFINITY;
  for (uint r = lane; r < results; r += GDM_SIMD_LANES) most = largest(most, of.sums[2 * (of.first + r * of.apart)]);
  float reference = exponent_from(largest_of_lanes(most));
  for (uint chain = simdgroup; chain < chains; chain += simdgroups) {
    Result total = {float4(0.0f), float4(0.0f), {0.0f, 0.0f}};
    for (uint pair = chain; pair < of.pairs; pair += Batch<SPANS>::pairs * GDM_ATTENTION_CHAINS) {
      if (pair != simdgroup) batch_read(batch, of, pair, lane);
      batch_add(total, batch, of, pair, reference);
    }
    totals[chain * (GDM_MAX_DIM / 4) + lane] = total.lower;
    totals[chain * (GDM_MAX_DIM / 4) + GDM_SIMD_LANES + lane] = total.upper;
    if (lane == 0) lengths[chain] = total.part.sum;
  }
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_ATTENTION_CHAINS * GDM_SIMD_LANES)]]
kernel void gd_attention_combine(device const float* partial [[buffer(0)]],
                                 device const float* sums [[buffer(1)]],
                                 device const GDMAttentionTask* tasks [[buffer(2)]],
                                 device const T* gate [[buffer(3)]],
                                 device T* out [[buffer(4)]],
                                 constant GDMAttentionCombine& params [[buffer(5)]],
                                 uint3 place [[threadgroup_position_in_grid]],
                                 uint index [[thread_index_in_threadgroup]],
                                 uint3 threadCounts [[threads_per_threadgroup]]) {
  constexpr uint chains = GDM_ATTENTION_CHAINS;
  threadgroup float4 totals[chains * GDM_MAX_DIM / 4];
  threadgroup float lengths[chains];
  uint threads = threadCounts.x;
  GDMAttentionTask task = tasks[place.x];
  uint row = place.z;
  if (row >= uint(task.rows)) return;  // the whole threadgroup
  uint lane = index % GDM_SIMD_LANES;
  uint keyHead = place.y;
  uint group = params.heads / params.keyHeads;
  uint dim = params.dim;
  uint spans = (seen_of(task, row, group) + GDM_ATTENTION_SPAN - 1) / GDM_ATTENTION_SPAN;
  uint pairs = (spans + 1) / 2;
  Results of = {partial,
                sums,
                (ulong(uint(task.place)) * params.keyHeads + keyHead) * params.rows + row,
                ulong(params.keyHeads) * params.rows,
                spans,
                pairs,
                dim};
  uint simdgroup = index / GDM_SIMD_LANES;
  if (params.spans == 1) chains_take<1>(totals, lengths, of, simdgroup, threads / GDM_SIMD_LANES, lane);
  else chains_take<2>(totals, lengths, of, simdgroup, threads / GDM_SIMD_LANES, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  uint number = uint(task.firstRow) + row;
  ulong token = ulong(uint(task.firstToken) + number / group);
  ulong head = ulong(keyHead * group + number % group);
  ulong gateAt = token * params.gateTokenStride + head * params.gateHeadStride;
  ulong outAt = token * params.outTokenStride + head * params.outHeadStride;
  float length = lengths[0];
  for (uint chain = 1; chain < min(chains, pairs); ++chain) length += lengths[chain];
  for (uint i = 4 * index; i < dim; i += 4 * threads) {
    float4 total = totals[i / 4];
    for (uint chain = 1; chain < min(chains, pairs); ++chain) total += totals[chain * (GDM_MAX_DIM / 4) + i / 4];
    GDM_UNROLL for (uint e = 0; e < 4; ++e) {
      float x = precise::divide(total[e], length);
      if (params.hasGate != 0) x *= gd_sigmoid(float(gate[gateAt + i + e]));
      write_wide(out, outAt + i + e, x, OUT_F32);
    }
  }
}

// Names: gd_attention_combine_<T>.
GDM_INSTANTIATE_T(gd_attention_combine)
