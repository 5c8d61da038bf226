// Rows by the matrices of their experts: gd_project's sums, to the bit, for rows at any place.
//
// out [tokens, ranks, outputs] and x [tokens, ranks, inputs], or [tokens, inputs] with a rank stride of 0, strides in elements;
// a row p of either is rank p % ranks of token p / ranks. weight [experts, outputs, inputs]: matrix.h, one matrix after another;
// or, with MATRIX_PIECES, the table of their places in buffer0 .. buffer3; scales and biases lie the same way in both cases.
//
// Few rows, TILE_ROWS 1: a threadgroup takes row group.x and the row's id in `ids`. One thread reads the id, since the host
// may write to it at any time and all threads must go the same way. If the id is of no expert, the row becomes zeros; the first
// such row goes to check[0], by a minimum, and the id of each to check[1 + row].
// Many rows: expert_sort.metal has checked the ids, and a threadgroup takes tile group.x of `tiles`.
//
// Grid: (rows or tiles, ceil(outputs / (4 OUTS))) threadgroups of GDM_PROJECT_THREADS: all tiles of an expert run together.
// Tiles, their spread and the order of sums: projection.metal. Function constants: those of projection.metal, and MATRIX_PIECES.
#include "projection.h"

// Rows that one matrix serves: `only`, or some of `places`.
struct ExpertRows {
  enum : uint { most_turns = 3 };  // with four a core has registers for two threadgroups, not three
  uint first;  // row of the matrix
  uint rows;
  uint only;
  device const uint* places;
  uint ranks;
  uint xTokenStride;
  uint xRankStride;
  uint outTokenStride;
  uint outRankStride;
};
METAL_FUNC uint project_rows(ExpertRows rows, constant GDMProject&) { return rows.rows; }
METAL_FUNC uint expert_place(ExpertRows rows, uint row) { return TILE_ROWS == 1 ? rows.only : rows.places[row]; }
METAL_FUNC ulong project_x(ExpertRows rows, constant GDMProject&, uint row) {
  uint place = expert_place(rows, row);
  return ulong(place / rows.ranks) * rows.xTokenStride + ulong(place % rows.ranks) * rows.xRankStride;
}
METAL_FUNC ulong project_out(ExpertRows rows, constant GDMProject&, uint row) {
  uint place = expert_place(rows, row);
  return ulong(place / rows.ranks) * rows.outTokenStride + ulong(place % rows.ranks) * rows.outRankStride;
}
METAL_FUNC uint project_residual(ExpertRows, uint) { return 0; }
METAL_FUNC uint project_matrix(ExpertRows rows) { return rows.first; }

// Writes zeros for all rows, from an output on.
template <typename T>
METAL_FUNC void expert_nothing(device T* out, ExpertRows rows, constant GDMProject& params, uint group, uint groups,
                               uint index) {
  for (uint row = 0; row < rows.rows; ++row) {
    ulong at = project_out(rows, params, row);
    for (uint output = group * GDM_PROJECT_THREADS + index; output < params.outputs; output += groups * GDM_PROJECT_THREADS) {
      write_wide(out, at + output, 0.0f, OUT_F32);
    }
  }
}

template <typename T, typename W>
kernel void gd_expert_project(device const T* x [[buffer(0)]],
                              device const ushort* weight [[buffer(1)]],
                              device const ushort* scales [[buffer(2)]],
                              device const ushort* biases [[buffer(3)]],
                              device const int* ids [[buffer(4)]],
                              device const uint* places [[buffer(5)]],
                              device const GDMExpertTile* tiles [[buffer(6)]],
                              device uint* check [[buffer(7)]],
                              device T* out [[buffer(8)]],
                              device const uchar* buffer0 [[buffer(9)]],
                              device const uchar* buffer1 [[buffer(10)]],
                              device const uchar* buffer2 [[buffer(11)]],
                              device const uchar* buffer3 [[buffer(12)]],
                              constant GDMProject& params [[buffer(13)]],
                              constant GDMExperts& experts [[buffer(14)]],
                              threadgroup float4* memory [[threadgroup(0)]],
                              uint2 group [[threadgroup_position_in_grid]],
                              uint2 groups [[threadgroups_per_grid]],
                              uint index [[thread_index_in_threadgroup]]) {
  threadgroup int found;
  int expert;
  ExpertRows rows = {0,
                     1,
                     group.x,
                     places,
                     experts.ranks,
                     experts.xTokenStride,
                     experts.xRankStride,
                     experts.outTokenStride,
                     experts.outRankStride};
  if (TILE_ROWS == 1) {
    if (index == 0) found = ids[group.x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    expert = found;
    if (expert < 0 || uint(expert) >= experts.experts) {
      if (group.y == 0 && index == 0) {
        check[1 + group.x] = uint(expert);
        atomic_fetch_min_explicit((device atomic_uint*)check, group.x, memory_order_relaxed);
      }
      expert = GDM_EXPERT_NONE;
    }
  } else {
    GDMExpertTile tile = tiles[group.x];
    expert = tile.expert;
    rows.rows = tile.rows;
    rows.places = places + tile.first;
    if (tile.rows == 0) return;
  }
  if (expert == GDM_EXPERT_NONE) {
    expert_nothing(out, rows, params, group.y, groups.y, index);
    return;
  }
  if (MATRIX_PIECES) {
    ulong piece = ((device const ulong*)weight)[expert];
    uint number = uint(piece >> GDM_PIECE_BUFFER);
    device const uchar* buffer = number == 0 ? buffer0 : number == 1 ? buffer1 : number == 2 ? buffer2 : buffer3;
    weight = (device const ushort*)(buffer + ((piece & ((ulong(1) << GDM_PIECE_BUFFER) - 1)) - MATRIX_SHIFT));
    ulong factors = ulong(expert) * params.outputs * (params.inputs >> MATRIX_GROUP);
    scales = matrix_scale(scales, factors);
    biases = matrix_scale(biases, factors);
  } else {
    rows.first = uint(expert) * params.outputs;
  }
  project_tile<T, W>(x, weight, scales, biases, x, out, params, memory, rows, group.y, index);
}

// Names: gd_expert_project_<T>_<W>, W a float dtype or an unpacking, such as affine4.
GDM_INSTANTIATE_TW(gd_expert_project)
