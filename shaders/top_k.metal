// The k largest elements of each row and their columns, largest first: of equal ones, such as 0 and -0, the lower column
// first, and NaN before all others.
//
// x [rows, columns] T, row stride in elements; values, ids [rows, chosen].
// An element is a pair of a key, which descends as the element ascends, and its column. No two pairs of a row are equal,
// so the order of comparisons does not matter. Keys come from an element's bits: a GPU may treat small numbers as zeros
// when it computes with them. Places past the end of a row are pairs that come after all others, each different.
//
// A piece is GDM_TOP_K_THREADS * GDM_TOP_K_EACH elements. Grid: (pieces, rows) threadgroups of GDM_TOP_K_THREADS.
// gd_top_k finds the `chosen` first pairs of each piece of a row, in order, as a list; gd_top_k_merge those of each piece of
// lists, `columns` pairs per row, until a row is one piece. Then the first pairs are the results.
// lists [rows, pieces, chosen], pairs.
// 1. Each thread's first pair. If only one is wanted, it is the first of these. 2. Each thread counts the others' first pairs
// that come before its own: the one with chosen - 1 before it bounds the piece's, so that at most `chosen` threads have pairs
// within the bound. 3. These pairs go into threadgroup memory. 4. The place of each pair is the number of those that come
// before it.
// Threadgroup memory: first pairs [GDM_TOP_K_THREADS], pairs within the bound [chosen * GDM_TOP_K_EACH], 8 bytes each.
// Function constants: none.
#include "storage.h"

constant constexpr uint TOP_K_NONE = 0xffffffffu;
constant constexpr uint TOP_K_PIECE = GDM_TOP_K_THREADS * GDM_TOP_K_EACH;
// Odd, and 0.618 of a piece: a thread has pairs from all places in lists, whose first places hold most of the wanted pairs.
constant constexpr uint TOP_K_SPREAD = 2531;
constant constexpr uint TOP_K_SIMDGROUPS = GDM_TOP_K_THREADS / GDM_SIMD_LANES;

METAL_FUNC uint top_k_key(uint bits) {
  uint magnitude = bits & 0x7fffffffu;
  uint ascending = magnitude == 0 ? 0x80000000u : ((bits >> 31) != 0 ? ~bits : bits | 0x80000000u);
  return magnitude > 0x7f800000u ? 0u : ~ascending;
}

METAL_FUNC bool top_k_before(uint2 a, uint2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }

// Where the first pairs go: a list, or the results.
template <typename T> struct TopKOut {
  device const T* row;
  device uint2* list;
  device float* values;
  device int* ids;
  bool isResult;

  METAL_FUNC void write(uint place, uint2 pair) {
    if (isResult) {
      values[place] = Bits<T>::value(((device const typename Bits<T>::type*)row)[pair.y]);
      ids[place] = int(pair.y);
    } else {
      list[place] = pair;
    }
  }
};

// The first of the threadgroup's pairs, for thread 0.
METAL_FUNC uint2 top_k_first(uint2 own, threadgroup uint2* firsts, uint index) {
  GDM_UNROLL for (uint bit = 1; bit < GDM_SIMD_LANES; bit *= 2) {
    uint2 other = uint2(simd_shuffle_xor(own.x, ushort(bit)), simd_shuffle_xor(own.y, ushort(bit)));
    if (top_k_before(other, own)) own = other;
  }
  if (index % GDM_SIMD_LANES == 0) firsts[index / GDM_SIMD_LANES] = own;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < TOP_K_SIMDGROUPS; ++i) {
    if (top_k_before(firsts[i], own)) own = firsts[i];
  }
  return own;
}

// A thread's pairs: of elements, GDM_TOP_K_THREADS apart, and of lists.
struct TopKElements {
  uint keys[GDM_TOP_K_EACH];
  uint column;  // the first one's

  METAL_FUNC uint2 at(uint i) { return uint2(keys[i], column + i * GDM_TOP_K_THREADS); }
  METAL_FUNC uint2 first() {
    uint2 found = at(0);
    // Columns ascend, so of equal keys the first stays.
    GDM_UNROLL for (uint i = 1; i < GDM_TOP_K_EACH; ++i) found = keys[i] < found.x ? at(i) : found;
    return found;
  }
};
struct TopKPairs {
  uint2 pairs[GDM_TOP_K_EACH];

  METAL_FUNC uint2 at(uint i) { return pairs[i]; }
  METAL_FUNC uint2 first() {
    uint2 found = pairs[0];
    GDM_UNROLL for (uint i = 1; i < GDM_TOP_K_EACH; ++i) found = top_k_before(pairs[i], found) ? pairs[i] : found;
    return found;
  }
};

template <typename T, typename Own>
METAL_FUNC void top_k_select(thread Own& own, uint chosen, TopKOut<T> out, threadgroup uint2* firsts,
                             threadgroup uint2* bound, threadgroup uint* counts, uint index) {
  uint2 first = own.first();
  if (chosen == 1) {
    first = top_k_first(first, firsts, index);
    if (index == 0) out.write(0, first);
    return;
  }
  firsts[index] = first;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint before = 0;
  for (uint i = 0; i < GDM_TOP_K_THREADS; ++i) before += top_k_before(firsts[i], first) ? 1 : 0;
  if (before == chosen - 1) *bound = first;
  threadgroup_barrier(mem_flags::mem_threadgroup);

  uint2 last = *bound;
  uint count = 0;
  GDM_UNROLL for (uint i = 0; i < GDM_TOP_K_EACH; ++i) count += top_k_before(last, own.at(i)) ? 0 : 1;
  uint lane = index % GDM_SIMD_LANES;
  uint sum = count;
  GDM_UNROLL for (uint step = 1; step < GDM_SIMD_LANES; step *= 2) {
    uint other = simd_shuffle(sum, ushort(lane >= step ? lane - step : lane));
    sum += lane >= step ? other : 0;
  }
  if (lane == GDM_SIMD_LANES - 1) counts[index / GDM_SIMD_LANES] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint place = sum - count;
  uint all = 0;
  for (uint i = 0; i < TOP_K_SIMDGROUPS; ++i) {
    place += i < index / GDM_SIMD_LANES ? counts[i] : 0;
    all += counts[i];
  }
  threadgroup uint2* found = firsts + GDM_TOP_K_THREADS;
  GDM_UNROLL for (uint i = 0; i < GDM_TOP_K_EACH; ++i) {
    if (!top_k_before(last, own.at(i))) found[place++] = own.at(i);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint i = index; i < all; i += GDM_TOP_K_THREADS) {
    uint2 pair = found[i];
    uint rank = 0;
    for (uint j = 0; j < all; ++j) rank += top_k_before(found[j], pair) ? 1 : 0;
    if (rank < chosen) out.write(rank, pair);
  }
}

template <typename T>
METAL_FUNC TopKOut<T> top_k_out(device const T* x, device uint2* lists, device float* values, device int* ids,
                                constant GDMTopK& params, uint2 place) {
  TopKOut<T> out;
  out.row = x + ulong(place.y) * params.rowStride;
  out.list = lists + (ulong(place.y) * params.pieces + place.x) * params.chosen;
  out.values = values + ulong(place.y) * params.chosen;
  out.ids = ids + ulong(place.y) * params.chosen;
  out.isResult = params.pieces == 1;
  return out;
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_TOP_K_THREADS)]]
kernel void gd_top_k(device const T* x [[buffer(0)]],
                     device uint2* lists [[buffer(1)]],
                     device float* values [[buffer(2)]],
                     device int* ids [[buffer(3)]],
                     constant GDMTopK& params [[buffer(4)]],
                     threadgroup uint2* firsts [[threadgroup(0)]],
                     uint2 place [[threadgroup_position_in_grid]],
                     uint index [[thread_index_in_threadgroup]]) {
  threadgroup uint2 bound;
  threadgroup uint counts[TOP_K_SIMDGROUPS];
  TopKOut<T> out = top_k_out(x, lists, values, ids, params, place);
  device const typename Bits<T>::type* bits = (device const typename Bits<T>::type*)out.row;
  TopKElements own;
  own.column = place.x * TOP_K_PIECE + index;
  GDM_UNROLL for (uint i = 0; i < GDM_TOP_K_EACH; ++i) {
    uint column = own.column + i * GDM_TOP_K_THREADS;
    own.keys[i] = column < params.columns ? top_k_key(as_type<uint>(Bits<T>::value(bits[column]))) : TOP_K_NONE;
  }
  top_k_select(own, params.chosen, out, firsts, &bound, counts, index);
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_TOP_K_THREADS)]]
kernel void gd_top_k_merge(device const T* x [[buffer(0)]],
                           device const uint2* from [[buffer(1)]],
                           device uint2* lists [[buffer(2)]],
                           device float* values [[buffer(3)]],
                           device int* ids [[buffer(4)]],
                           constant GDMTopK& params [[buffer(5)]],
                           threadgroup uint2* firsts [[threadgroup(0)]],
                           uint2 place [[threadgroup_position_in_grid]],
                           uint index [[thread_index_in_threadgroup]]) {
  threadgroup uint2 bound;
  threadgroup uint counts[TOP_K_SIMDGROUPS];
  device const uint2* row = from + ulong(place.y) * params.columns;
  TopKPairs own;
  GDM_UNROLL for (uint i = 0; i < GDM_TOP_K_EACH; ++i) {
    uint column = place.x * TOP_K_PIECE + (index * GDM_TOP_K_EACH + i) * TOP_K_SPREAD % TOP_K_PIECE;
    own.pairs[i] = column < params.columns ? row[column] : uint2(TOP_K_NONE, 0x80000000u | column);
  }
  top_k_select(own, params.chosen, top_k_out(x, lists, values, ids, params, place), firsts, &bound, counts, index);
}

// Names: gd_top_k_<T>, gd_top_k_merge_<T>.
GDM_INSTANTIATE_T(gd_top_k)
GDM_INSTANTIATE_T(gd_top_k_merge)
