// Many rows of a projection, for projection.h: the same sums, spread differently.
//
// A threadgroup has GDM_BLOCK_ROWS rows by GDM_BLOCK_OUTPUTS outputs, a thread eight rows by eight outputs. x and weights go,
// eight columns of a chain at a time, through threadgroup memory, which has two halves: while sums read one, a thread widens
// four columns of a row of x and eight of an output into the other, and asks for those that follow. Chains are walked one
// after another, so a thread has, for each output, one sum for the current chain and one for those before it.
//   memory: two of x [8, GDM_BLOCK_PITCH] | weights [8, GDM_BLOCK_WIDE], floats
#ifndef GATED_DELTA_SHADERS_PROJECTION_BLOCK_H
#define GATED_DELTA_SHADERS_PROJECTION_BLOCK_H

#include "packed_row.h"

// Columns of a row of x and of an output that a thread stages, as memory holds them.
template <typename T, typename W> struct BlockAsked {
  typename Vec4<T>::bits x;
  Raw<W> weight;
};

// Where a thread asks, x from its own four columns of each eight on, and where it stages.
template <typename T, typename W> struct BlockStager {
  device const T* x;
  MatrixRow<W> weight;
  threadgroup float* xTo;
  threadgroup float* weightTo;
  uint run;
};

// Columns at .. at + 7; those from `inputs` on are zeros.
template <typename T, typename W>
METAL_FUNC void block_ask(thread BlockAsked<T, W>& asked, thread const BlockStager<T, W>& from, uint at, uint inputs) {
  typedef typename Vec4<T>::type T4;
  typedef typename Vec4<T>::bits Bits4;
  matrix_fetch(asked.weight, from.weight, at, at, inputs);
  if (ALIGNED_ROWS) {
    asked.x = as_type<Bits4>(*(device const T4*)(from.x + at));
    return;
  }
  T4 v = T4(T(0.0f));
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + 4 * from.run + j < inputs) v[j] = from.x[at + j];
  }
  asked.x = as_type<Bits4>(v);
}

// To threadgroup memory, `on` floats further.
template <typename T, typename W>
METAL_FUNC void block_stage(thread const BlockStager<T, W>& to, uint on, thread BlockAsked<T, W>& asked, uint unit) {
  float4 v = Vec4<T>::widen(as_type<typename Vec4<T>::type>(asked.x));
  Eight w;
  matrix_ready(asked.weight);
  matrix_widen(w, asked.weight, unit);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    to.xTo[on + j * GDM_BLOCK_PITCH] = v[j];
    to.weightTo[on + j * GDM_BLOCK_WIDE] = w.lower[j];
    to.weightTo[on + (4 + j) * GDM_BLOCK_WIDE] = w.upper[j];
  }
}

// The eight columns that follow those at `at`; `inputs` after the last.
METAL_FUNC uint block_next(uint at, uint inputs) {
  if (at + GDM_PROJECT_TURN < inputs) return at + GDM_PROJECT_TURN;
  uint chain = at % GDM_PROJECT_TURN + 8;
  return chain < GDM_PROJECT_TURN ? min(chain, inputs) : inputs;
}

// Sums of eight rows by four outputs, then of the same rows by four outputs in the other half of the block. Rows, too, are four
// from each half.
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
  constexpr uint floats = 8 * (GDM_BLOCK_PITCH + GDM_BLOCK_WIDE);  // of a half of the memory
  static_assert(2 * size == GDM_PROJECT_THREADS && wide == GDM_PROJECT_THREADS, "a thread has eight by eight, and stages an output");
  threadgroup float* xs = (threadgroup float*)memory;
  threadgroup float* ws = xs + 8 * GDM_BLOCK_PITCH;
  uint count = project_rows(rows, params);
  uint inputs = params.inputs;
  uint firstOutput = group * wide;
  BlockStager<T, W> stager;
  stager.run = index / size;
  stager.x = x + (project_x(rows, params, min(index % size, count - 1)) + 4 * stager.run);
  matrix_place(stager.weight, weight, scales, biases, project_matrix(rows) + min(firstOutput + index, params.outputs - 1), 0, inputs);
  stager.xTo = xs + 4 * stager.run * GDM_BLOCK_PITCH + index % size;
  stager.weightTo = ws + index;
  uint firstRow = 4 * (index % (size / 8));
  uint output = 4 * (index / (size / 8));

  BlockSums sum;
  BlockSums total;
  GDM_UNROLL for (uint i = 0; i < 16; ++i) {
    sum.of[i] = float4(0.0f);
    total.of[i] = float4(0.0f);
  }
  BlockAsked<T, W> asked;
  uint next = inputs;
  if (inputs > 0) {
    block_ask(asked, stager, 0, inputs);
    block_stage(stager, 0, asked, params.unit);
    next = block_next(0, inputs);
    if (next < inputs) block_ask(asked, stager, next, inputs);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint from = 0;
  for (uint at = 0; at < inputs;) {
    uint after = inputs;
    if (next < inputs) {
      block_stage(stager, floats - from, asked, params.unit);
      after = block_next(next, inputs);
      if (after < inputs) block_ask(asked, stager, after, inputs);
    }
    threadgroup const float* xFrom = xs + from + firstRow;
    threadgroup const float* weightFrom = ws + from + output;
    if (ALIGNED_ROWS || at + 8 <= inputs) {
      GDM_UNROLL for (uint k = 0; k < 8; ++k) block_add(sum, xFrom + k * GDM_BLOCK_PITCH, weightFrom + k * GDM_BLOCK_WIDE);
    } else {
      for (uint k = 0; k < inputs - at; ++k) block_add(sum, xFrom + k * GDM_BLOCK_PITCH, weightFrom + k * GDM_BLOCK_WIDE);
    }
    // The chain's last.
    if (at + GDM_PROJECT_TURN >= inputs) {
      GDM_UNROLL for (uint i = 0; i < 16; ++i) {
        total.of[i] += sum.of[i];
        sum.of[i] = float4(0.0f);
      }
    }
    at = next;
    next = after;
    from = floats - from;
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
