// The best experts of a token and their shares of the softmax over all of them, in float32.
//
//   e_i = exp(l_i - max l)     p_i = e_i / sum of e     weights[j] = p of the j-th best, or that over the sum of the k of them
//
// logits [tokens, experts] T, row stride in elements; ids, weights [tokens, chosen]. An expert's rank is the number of experts
// before it: those with greater logits, or with equal logits and lower ids. So every rank is found at once, for any k.
//
// Threadgroup memory: keys [experts], 4 bytes each, rounded up to 16 by the host. A key descends as a logit ascends; 0 and -0
// have the same key, and every NaN has the last.
// Grid: (tokens) threadgroups of GDM_ROUTE_THREADS.
// 1. Keys; the least of them is that of the greatest logit.   2. Exponentials. Thread t sums those of experts
// t, t + GDM_ROUTE_THREADS, .. in ascending order, then threads by xor 1, 2, 4, 8, 16 of their number, then simdgroups in
// order.   3. Each thread counts the ranks of its experts and writes their ids and shares.   4. If weights are normalized,
// one thread sums them in order of rank, and each is divided by the sum.
// Function constants: none.
#include "storage.h"

METAL_FUNC uint route_key(float x) {
  uint bits = as_type<uint>(x + 0.0f);  // -0 becomes 0
  uint ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return x != x ? 0xffffffffu : ~ascending;
}

// The logit of a key; NaN for that of NaN.
METAL_FUNC float route_logit(uint key) {
  uint ascending = ~key;
  return as_type<float>((ascending >> 31) != 0 ? ascending & 0x7fffffffu : ~ascending);
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_ROUTE_THREADS)]]
kernel void gd_route(device const T* logits [[buffer(0)]],
                     device int* ids [[buffer(1)]],
                     device float* weights [[buffer(2)]],
                     constant GDMRoute& params [[buffer(3)]],
                     threadgroup uint* keys [[threadgroup(0)]],
                     uint token [[threadgroup_position_in_grid]],
                     uint index [[thread_index_in_threadgroup]]) {
  constexpr uint threads = GDM_ROUTE_THREADS;
  constexpr uint simdgroups = threads / GDM_SIMD_LANES;
  threadgroup uint least[simdgroups];
  threadgroup float sums[simdgroups];
  threadgroup float total;
  uint experts = params.experts;
  device const T* row = logits + ulong(token) * params.logitsRowStride;
  device int* idRow = ids + ulong(token) * params.chosen;
  device float* weightRow = weights + ulong(token) * params.chosen;

  uint first = 0xffffffffu;
  for (uint i = index; i < experts; i += threads) {
    keys[i] = route_key(float(row[i]));
    first = min(first, keys[i]);
  }
  GDM_UNROLL for (uint bit = 1; bit < GDM_SIMD_LANES; bit *= 2) first = min(first, simd_shuffle_xor(first, ushort(bit)));
  if (index % GDM_SIMD_LANES == 0) least[index / GDM_SIMD_LANES] = first;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < simdgroups; ++i) first = min(first, least[i]);
  float most = route_logit(first);

  float sum = 0.0f;
  for (uint i = index; i < experts; i += threads) sum += gd_exp_down(route_logit(keys[i]) - most);
  GDM_UNROLL for (uint bit = 1; bit < GDM_SIMD_LANES; bit *= 2) sum += simd_shuffle_xor(sum, ushort(bit));
  if (index % GDM_SIMD_LANES == 0) sums[index / GDM_SIMD_LANES] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = sums[0];
  for (uint i = 1; i < simdgroups; ++i) sum += sums[i];

  for (uint i = index; i < experts; i += threads) {
    uint key = keys[i];
    uint rank = 0;
    for (uint j = 0; j < i; ++j) rank += keys[j] <= key ? 1 : 0;
    for (uint j = i + 1; j < experts; ++j) rank += keys[j] < key ? 1 : 0;
    if (rank < params.chosen) {
      idRow[rank] = int(i);
      weightRow[rank] = precise::divide(gd_exp_down(route_logit(key) - most), sum);
    }
  }
  if (params.normalize == 0) return;
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (index == 0) {
    float all = 0.0f;
    for (uint j = 0; j < params.chosen; ++j) all += weightRow[j];
    total = all;
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  for (uint j = index; j < params.chosen; j += threads) weightRow[j] = precise::divide(weightRow[j], total);
}

// Names: gd_route_<T>.
GDM_INSTANTIATE_T(gd_route)
