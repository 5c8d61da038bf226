// Linear projection: out[r, o] = (residual[r, o] +) sum over i of x[r, i] weight[o, i], in float32.
//
// x [rows, inputs] T, out [rows, outputs] T or f32 (OUT_F32), residual likewise, row strides in elements; weight
// [outputs, inputs]: matrix.h. ALIGNED_ROWS: inputs are a multiple of 8, and every row of x begins at a multiple of 16 bytes.
//
// The order of a sum, for one row as for many and for any way to store weights (a quantised one
// is w = fma(q, scale, bias) first, and eight of them are a whole number of bytes at any width):
//   1. chain c = 0 .. 31 takes elements 8 (c + 32 i) + 0 .. 7, i = 0, 1, ..., in ascending order by fma, from 0
//   2. chains add by xor 1, 2, 4, 8, 16 of their number
// It depends on `inputs` alone. Here a chain is a lane; in packed_row.h, which the host takes for one row of packed weights
// and many outputs (PACKED_ROW), a lane has four. The residual is added to the whole sum.
//
// Grid: (ceil(rows / TILE_ROWS), ceil(outputs / (4 OUTS))) threadgroups of GDM_PROJECT_THREADS, rows first, so that
// threadgroups that run together read the same weights. A simdgroup makes a tile of TILE_ROWS rows (1, 2, 4 or 8) by
// OUTS outputs (4, or what Tile says), so that a weight read once serves all rows; past the edge it repeats the last row or
// output, unstored. What a lane reads of weights, 8 neighbours of each output, in one turn or, where they are few bytes, in
// several, it asks for before it uses the first. Tiles of eight rows take 150 registers and more, those of four of packed
// weights 143: the host uses smaller ones where the pipeline then has few threads, which is why there is no bound here.
// Function constants: OUT_F32, ALIGNED_ROWS, TILE_ROWS, PACKED_ROW, MATRIX_ALIGNMENT, MATRIX_SHIFT, MATRIX_GROUP,
// MATRIX_DTYPE, SCALES_SHIFT, BIASES_SHIFT.
#include "projection.h"

// Consecutive rows.
struct AllRows {
  uint first;
};
METAL_FUNC uint project_rows(AllRows rows, constant GDMProject& params) { return params.rows - rows.first; }
METAL_FUNC ulong project_x(AllRows rows, constant GDMProject& params, uint row) {
  return ulong(rows.first + row) * params.xRowStride;
}
METAL_FUNC ulong project_out(AllRows rows, constant GDMProject& params, uint row) {
  return ulong(rows.first + row) * params.outRowStride;
}
METAL_FUNC uint project_residual(AllRows rows, uint row) { return rows.first + row; }
METAL_FUNC uint project_matrix(AllRows) { return 0; }

template <typename T, typename W>
kernel void gd_project(device const T* x [[buffer(0)]],
                       device const ushort* weight [[buffer(1)]],
                       device const ushort* scales [[buffer(2)]],
                       device const ushort* biases [[buffer(3)]],
                       device const T* residual [[buffer(4)]],
                       device T* out [[buffer(5)]],
                       constant GDMProject& params [[buffer(6)]],
                       uint2 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  threadgroup float4 memory[GDM_PACKED_MEMORY];
  AllRows rows = {group.x * TILE_ROWS};
  project_tile<T, W>(x, weight, scales, biases, residual, out, params, memory, rows, group.y, index);
}

// Names: gd_project_<T>_<W>, W a float dtype or what unpacks, such as affine4.
GDM_INSTANTIATE_TW(gd_project)
