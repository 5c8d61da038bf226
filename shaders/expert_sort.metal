// Rows by expert, for expert_projection.metal: a counting sort, by one threadgroup.
//
// ids [rows]; places [rows] the rows, expert by expert in ascending order, those of no expert last; tiles
// [params.tiles] of at most tileRows of them, each of one expert, followed by tiles of no rows. check: check[1 + row] is the
// id of each row; check[0], which the host sets to its largest number, becomes the first row whose id is of no expert.
// The order of an expert's rows is left open: no bit of a sum depends on it.
//
// Threadgroup memory: counts [experts + 1], 4 bytes each, rounded up to 16 by the host.
// Grid: one threadgroup of GDM_EXPERT_SORT_THREADS.
// 1. Each thread reads its ids, once, since the host may write to them; each expert's rows are counted.
// 2. The first simdgroup sums the counts, a lane for a part of the experts, and makes the tiles.
// 3. Each thread puts its rows into their places.
#include "options.h"

// The inclusive sum over the lanes of a simdgroup.
METAL_FUNC uint sum_of_lanes(uint value, uint lane) {
  GDM_UNROLL for (uint step = 1; step < GDM_SIMD_LANES; step *= 2) {
    uint before = simd_shuffle(value, ushort(lane >= step ? lane - step : lane));
    value += lane >= step ? before : 0;
  }
  return value;
}

[[max_total_threads_per_threadgroup(GDM_EXPERT_SORT_THREADS)]]
kernel void gd_expert_sort(device const int* ids [[buffer(0)]],
                           device uint* places [[buffer(1)]],
                           device GDMExpertTile* tiles [[buffer(2)]],
                           device uint* check [[buffer(3)]],
                           constant GDMExpertSort& params [[buffer(4)]],
                           threadgroup atomic_uint* counts [[threadgroup(0)]],
                           uint index [[thread_index_in_threadgroup]]) {
  threadgroup uint made;
  constexpr uint threads = GDM_EXPERT_SORT_THREADS;
  uint buckets = params.experts + 1;
  for (uint i = index; i < buckets; i += threads) atomic_store_explicit(&counts[i], 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint row = index; row < params.rows; row += threads) {
    uint id = uint(ids[row]);
    check[1 + row] = id;
    if (id >= params.experts) {
      atomic_fetch_min_explicit((device atomic_uint*)check, row, memory_order_relaxed);
      id = params.experts;
    }
    atomic_fetch_add_explicit(&counts[id], 1u, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (index < GDM_SIMD_LANES) {
    uint each = (buckets + GDM_SIMD_LANES - 1) / GDM_SIMD_LANES;
    uint end = min((index + 1) * each, buckets);
    uint rowSum = 0;
    uint tileSum = 0;
    for (uint i = index * each; i < end; ++i) {
      uint count = atomic_load_explicit(&counts[i], memory_order_relaxed);
      rowSum += count;
      tileSum += (count + params.tileRows - 1) / params.tileRows;
    }
    uint row = sum_of_lanes(rowSum, index) - rowSum;
    uint tile = sum_of_lanes(tileSum, index) - tileSum;
    if (index == GDM_SIMD_LANES - 1) made = tile + tileSum;
    for (uint i = index * each; i < end; ++i) {
      uint count = atomic_load_explicit(&counts[i], memory_order_relaxed);
      atomic_store_explicit(&counts[i], row, memory_order_relaxed);
      for (uint first = 0; first < count; first += params.tileRows) {
        GDMExpertTile next = {i < params.experts ? int(i) : int(GDM_EXPERT_NONE), row + first,
                              min(params.tileRows, count - first)};
        tiles[tile++] = next;
      }
      row += count;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint tile = made + index; tile < params.tiles; tile += threads) {
    GDMExpertTile none = {int(GDM_EXPERT_NONE), 0, 0};
    tiles[tile] = none;
  }
  for (uint row = index; row < params.rows; row += threads) {
    uint id = min(check[1 + row], params.experts);
    places[atomic_fetch_add_explicit(&counts[id], 1u, memory_order_relaxed)] = row;
  }
}
