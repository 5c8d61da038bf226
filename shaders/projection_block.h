// Many rows of a projection, for projection.h: the same sums, spread otherwise.
//
// A threadgroup has GDM_BLOCK_ROWS rows by GDM_BLOCK_OUTPUTS outputs, a thread eight rows by eight outputs. x and weights go
// through threadgroup memory, 16 columns of a chain at a time: a thread widens eight neighbours of one row of x and of two
// outputs, and asks for the next before it uses these. Chains are walked one after the other, so that a thread has one sum of
// each output for the chain and one for those before it.
//   memory: x [16, GDM_BLOCK_PITCH] | weights [16, GDM_BLOCK_WIDE], floats
#ifndef GATED_DELTA_SHADERS_PROJECTION_BLOCK_H
#define GATED_DELTA_SHADERS_PROJECTION_BLOCK_H

#include "packed_row.h"

METAL_FUNC void block_stage(threadgroup float* to, uint pitch, thread const Eight& v) {
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    to[j * pitch] = v.lower[j];
    to[(4 + j) * pitch] = v.upper[j];
  }
}

// Of eight rows, four outputs each; then the same of four outputs in the other half of the block. Rows, too, are four of each
// half.
struct BlockSums {
  float4 of[16];
};

METAL_FUNC void block_add(thread BlockSums& sum, threadgroup const float* x, threadgroup const float* weights) {
  float4 lower = *(threadgroup const float4*)x;
  float4 upper = *(threadgroup const float4*)(x + GDM_BLOCK_ROWS / 2);
  float4 left = *(threadgroup const float4*)weights;
  float4 right = *(threadgroup const float4*)(weights + GDM_BLOCK_OUTPUTS / 2);
  GDM_UNROLL for (uint i = 0; i < 4; ++i) {
    sum.of[i] = fma(float4(lower[i]), left, sum.of[i]);
    sum.of[4 + i] = fma(float4(upper[i]), left, sum.of[4 + i]);
    sum.of[8 + i] = fma(float4(lower[i]), right, sum.of[8 + i]);
    sum.of[12 + i] = fma(float4(upper[i]), right, sum.of[12 + i]);
  }
}

template <typename T, typename W, typename ROWS>
METAL_FUNC void project_block(device const T* x, device const ushort* weight, device const ushort* scales,
                              device const ushort* biases, device const T* residual, device T* out,
                              constant GDMProject& params, threadgroup float4* memory, ROWS rows, uint group, uint index) {
  constexpr uint size = GDM_BLOCK_ROWS;
  constexpr uint wide = GDM_BLOCK_OUTPUTS;
  static_assert(2 * size == GDM_PROJECT_THREADS && size * wide == 64 * GDM_PROJECT_THREADS, "a thread has eight by eight");
  threadgroup float* xs = (threadgroup float*)memory;
  threadgroup float* ws = xs + 16 * GDM_BLOCK_PITCH;
  uint count = project_rows(rows, params);
  uint inputs = params.inputs;
  uint firstOutput = group * wide;
  // This thread stages columns 8 run .. 8 run + 7 of row `own`, and of outputs `own` and own + wide / 2.
  uint own = index % size;
  uint run = index / size;
  MatrixRow<T> xRow = {x + project_x(rows, params, min(own, count - 1))};
  MatrixRow<W> weightRow[2];
  GDM_UNROLL for (uint b = 0; b < 2; ++b) {
    uint output = min(firstOutput + own + b * (wide / 2), params.outputs - 1);
    matrix_place(weightRow[b], weight, scales, biases, project_matrix(rows) + output, 0, inputs);
  }
  threadgroup float* xTo = xs + 8 * run * GDM_BLOCK_PITCH + own;
  threadgroup float* weightTo = ws + 8 * run * GDM_BLOCK_WIDE + own;
  uint firstRow = 4 * (index % (size / 8));
  uint output = 4 * (index / (size / 8));

  BlockSums sum;
  BlockSums total;
  GDM_UNROLL for (uint i = 0; i < 16; ++i) {
    sum.of[i] = float4(0.0f);
    total.of[i] = float4(0.0f);
  }
  Raw<T> xAsked;
  Raw<W> weightAsked[2];
  uint chain = 0;
  uint first = 0;  // column of the first run that is staged next
  bool more = inputs > 0;
  if (GDM_PROJECT_TURN * run < inputs) {
    row_fetch(xAsked, xRow, GDM_PROJECT_TURN * run, GDM_PROJECT_TURN * run, inputs);
    GDM_UNROLL for (uint b = 0; b < 2; ++b) {
      matrix_fetch(weightAsked[b], weightRow[b], GDM_PROJECT_TURN * run, GDM_PROJECT_TURN * run, inputs);
    }
  }
  while (more) {
    uint at = first + GDM_PROJECT_TURN * run;
    if (at < inputs) {
      Eight v;
      matrix_widen(v, xAsked, params.unit);
      block_stage(xTo, GDM_BLOCK_PITCH, v);
      GDM_UNROLL for (uint b = 0; b < 2; ++b) {
        matrix_widen(v, weightAsked[b], params.unit);
        block_stage(weightTo + b * (wide / 2), GDM_BLOCK_WIDE, v);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // Columns of this chain that are staged: 16, but for the last ones of x.
    uint second = first + GDM_PROJECT_TURN;
    uint columns = second < inputs ? 8 + min(8u, inputs - second) : min(8u, inputs - first);
    bool ends = second + GDM_PROJECT_TURN >= inputs;
    first = ends ? 8 * ++chain : second + GDM_PROJECT_TURN;
    more = chain < GDM_SIMD_LANES && first < inputs;
    at = first + GDM_PROJECT_TURN * run;
    if (more && at < inputs) {
      row_fetch(xAsked, xRow, at, at, inputs);
      GDM_UNROLL for (uint b = 0; b < 2; ++b) matrix_fetch(weightAsked[b], weightRow[b], at, at, inputs);
    }
    if (columns == 16) {
      GDM_UNROLL for (uint k = 0; k < 16; ++k) {
        block_add(sum, xs + k * GDM_BLOCK_PITCH + firstRow, ws + k * GDM_BLOCK_WIDE + output);
      }
    } else {
      for (uint k = 0; k < columns; ++k) {
        block_add(sum, xs + k * GDM_BLOCK_PITCH + firstRow, ws + k * GDM_BLOCK_WIDE + output);
      }
    }
    if (ends) {
      GDM_UNROLL for (uint i = 0; i < 16; ++i) {
        total.of[i] += sum.of[i];
        sum.of[i] = float4(0.0f);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  GDM_UNROLL for (uint i = 0; i < 16; ++i) {
    uint row = i / 4 % 2 * (size / 2) + firstRow + i % 4;
    if (row < count) {
      ulong at = project_out(rows, params, row);
      GDM_UNROLL for (uint e = 0; e < 4; ++e) {
        uint column = firstOutput + i / 8 * (wide / 2) + output + e;
        if (column < params.outputs) {
          project_store(out, residual, params, at + column, project_residual(rows, row), column, total.of[i][e]);
        }
      }
    }
  }
}

#endif
