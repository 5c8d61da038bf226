// Linear projection: out[r, o] = (residual[r, o] +) sum over i of x[r, i] weight[o, i], in float32.
//
// x [rows, inputs] T, out [rows, outputs] T or f32 (OUT_F32), residual likewise, row strides in elements; weight
// [outputs, inputs]: matrix.h. ALIGNED_ROWS: inputs are a multiple of 8, and every row of x begins at a multiple of 16 bytes.
//
// The order of a sum, the same for one row and for many and for any way to store weights (a quantised weight
// becomes w = fma(q, scale, bias) first, and eight weights are a whole number of bytes at any width):
//   1. chain c = 0 .. 31 takes elements 8 (c + 32 i) + 0 .. 7, i = 0, 1, ..., in ascending order by fma, from 0
//   2. chains add in ascending order, from 0
// The order depends only on `inputs`. The residual is added to the whole sum.
//
// Grid: (ceil(rows / rows of a threadgroup), ceil(outputs / its outputs)) threadgroups of GDM_PROJECT_THREADS, rows first, so
// that threadgroups that run together read the same weights. The host chooses one of these forms by rows, outputs and cores:
//   projection.h         TILE_ROWS rows (1, 2, 4 or 8), of four simdgroups' outputs: a chain is a lane
//   packed_row.h         PACKED_ROW, one row of packed weights and many outputs: a lane has four chains of one output
//   projection_block.h   MANY_ROWS, GDM_BLOCK_ROWS by GDM_BLOCK_OUTPUTS: a thread has whole sums
//   projection_matrix.h  MATRICES, products "matrix", GDM_BLOCK_ROWS rows and outputs; its order is its own
// Threadgroup memory, which the host passes: as these files say.
// Function constants: OUT_F32, ALIGNED_ROWS, TILE_ROWS, PACKED_ROW, TWO_OUTPUTS, MANY_ROWS, MANY_TURNS, MATRICES, MATRIX_HALVES,
// MATRIX_ALIGNMENT, MATRIX_SHIFT, MATRIX_GROUP, MATRIX_VARIANT, MATRIX_DTYPE, SCALES_SHIFT, BIASES_SHIFT.
#include "projection.h"

// Consecutive rows.
struct AllRows {
  enum : uint { most_turns = GDM_PROJECT_TURNS };
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
                       threadgroup float4* memory [[threadgroup(0)]],
                       uint2 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  AllRows rows = {group.x * (MANY_ROWS || MATRICES ? uint(GDM_BLOCK_ROWS) : TILE_ROWS)};
  project_tile<T, W>(x, weight, scales, biases, residual, out, params, memory, rows, group.y, index);
}

// Names: gd_project_<T>_<W>, W a float dtype or an unpacking, such as affine4.
GDM_INSTANTIATE_TW(gd_project)
