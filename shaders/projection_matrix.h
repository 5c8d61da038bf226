// Rows of a projection by simdgroup matrices, for projection.h: products "matrix".
//
// A threadgroup has GDM_BLOCK_ROWS rows by as many outputs, a simdgroup a quarter of them: 4 × 4 matrices of 8 × 8 sums. x and
// weights are widened to float32 once, into threadgroup memory, 16 columns at a time; the next are asked for before these
// are used. With MATRIX_HALVES there is twice the memory, and steps use its halves in turn: one barrier per step is then enough.
// Columns go in ascending order, eight to a product, whose own order Metal leaves open; past the last column both are zeros. A sum
// depends on its row, its output and `inputs`, not on the number of rows, if all places of a matrix add in the same order.
//   memory: x [GDM_BLOCK_ROWS, GDM_MATRIX_PITCH] | weights [GDM_BLOCK_ROWS, GDM_MATRIX_PITCH], floats, once or twice; then sums
#ifndef GATED_DELTA_SHADERS_PROJECTION_MATRIX_H
#define GATED_DELTA_SHADERS_PROJECTION_MATRIX_H

#include "packed_row.h"

#include <metal_simdgroup_matrix>

METAL_FUNC void matrix_stage(threadgroup float* to, thread const Eight& v) {
  ((threadgroup float4*)to)[0] = v.lower;
  ((threadgroup float4*)to)[1] = v.upper;
}

template <typename T, typename W, typename ROWS>
METAL_FUNC void project_matrices(device const T* x, device const ushort* weight, device const ushort* scales,
                                 device const ushort* biases, device const T* residual, device T* out,
                                 constant GDMProject& params, threadgroup float4* memory, ROWS rows, uint group, uint index) {
  constexpr uint size = GDM_BLOCK_ROWS;
  constexpr uint pitch = GDM_MATRIX_PITCH;
  constexpr uint depth = 16;
  static_assert(2 * size == GDM_PROJECT_THREADS, "a thread stages eight columns of a row and of an output");
  constexpr uint floats = 2 * size * pitch;  // of a step
  uint count = project_rows(rows, params);
  uint inputs = params.inputs;
  uint firstOutput = group * size;
  uint own = index / 2;
  uint run = 8 * (index % 2);
  MatrixRow<T> xRow = {x + project_x(rows, params, min(own, count - 1))};
  MatrixRow<W> weightRow;
  matrix_place(weightRow, weight, scales, biases, project_matrix(rows) + min(firstOutput + own, params.outputs - 1), 0, inputs);
  uint simdgroup = index / GDM_SIMD_LANES;
  uint lane = index % GDM_SIMD_LANES;
  uint firstRow = simdgroup / 2 * (size / 2);
  uint firstColumn = simdgroup % 2 * (size / 2);

  simdgroup_float8x8 sum[16];
  GDM_UNROLL for (uint i = 0; i < 16; ++i) sum[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  Raw<T> xAsked;
  Raw<W> weightAsked;
  if (run < inputs) {
    row_fetch(xAsked, xRow, run, run, inputs);
    matrix_fetch(weightAsked, weightRow, run, run, inputs);
  }
  uint from = 0;
  for (uint first = 0; first < inputs; first += depth) {
    threadgroup float* xs = (threadgroup float*)memory + from;
    threadgroup float* ws = xs + size * pitch;
    Eight v = {float4(0.0f), float4(0.0f)};
    Eight w = {float4(0.0f), float4(0.0f)};
    if (first + run < inputs) {
      matrix_widen(v, xAsked, params.unit);
      matrix_ready(weightAsked);
      matrix_widen(w, weightAsked, params.unit);
    }
    matrix_stage(xs + own * pitch + run, v);
    matrix_stage(ws + own * pitch + run, w);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint next = first + depth + run;
    if (next < inputs) {
      row_fetch(xAsked, xRow, next, next, inputs);
      matrix_fetch(weightAsked, weightRow, next, next, inputs);
    }
    GDM_UNROLL for (uint k = 0; k < depth; k += 8) {
      simdgroup_float8x8 a[4];
      simdgroup_float8x8 b[4];
      GDM_UNROLL for (uint i = 0; i < 4; ++i) {
        simdgroup_load(a[i], xs + (firstRow + 8 * i) * pitch + k, pitch);
        simdgroup_load(b[i], ws + (firstColumn + 8 * i) * pitch + k, pitch, ulong2(0, 0), true);
      }
      GDM_UNROLL for (uint i = 0; i < 4; ++i) {
        GDM_UNROLL for (uint j = 0; j < 4; ++j) {
          simdgroup_multiply_accumulate(sum[4 * i + j], a[i], b[j], sum[4 * i + j]);
        }
      }
    }
    if (MATRIX_HALVES) from = floats - from;
    else threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (MATRIX_HALVES) threadgroup_barrier(mem_flags::mem_threadgroup);

  // Eight rows at a time, by way of threadgroup memory: every simdgroup has a part of it.
  threadgroup float* mine = (threadgroup float*)memory + simdgroup * (8 * size / 2);
  GDM_UNROLL for (uint i = 0; i < 4; ++i) {
    if (i > 0) simdgroup_barrier(mem_flags::mem_threadgroup);
    GDM_UNROLL for (uint j = 0; j < 4; ++j) simdgroup_store(sum[4 * i + j], mine + 8 * j, size / 2);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    uint output = firstOutput + firstColumn + lane;
    for (uint r = 0; r < 8; ++r) {
      uint row = firstRow + 8 * i + r;
      if (row < count && output < params.outputs) {
        project_store(out, residual, params, project_out(rows, params, row) + output, project_residual(rows, row), output,
                      mine[r * (size / 2) + lane]);
      }
    }
  }
}

#endif
