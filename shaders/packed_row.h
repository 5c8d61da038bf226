// One row of x by packed weights, for projection.metal: the same sums, spread differently.
//
// Instructions are the bottleneck here, as a 4-bit number is half a byte: so x is widened once per threadgroup, a scale and
// a bias serve 32 numbers, and numbers are read as whole words. GDM_PACKED_LANES = 8 lanes share an output, or two with
// TWO_OUTPUTS: lane l has the chains 4 l .. 4 l + 3 of each output, that is, 32 neighbouring elements of every turn
// of 256.
//
// x goes through threadgroup memory as float4s, GDM_PACKED_SPAN elements at a time: quarters 2 c and 2 c + 1 of eight are
// apart by a pitch that keeps neighbouring lanes in different banks. A lane asks for its numbers for one or two turns
// before it uses those that it asked for last.
// Where x, the matrix and the output are: as in projection.h. memory: GDM_PACKED_MEMORY vectors of x, then the chains of each
// output, GDM_PROJECT_PITCH vectors.
// Grid: (1, ceil(outputs / (GDM_PROJECT_THREADS / 8 outputs of a lane))) threadgroups.
#ifndef GATED_DELTA_SHADERS_PACKED_ROW_H
#define GATED_DELTA_SHADERS_PACKED_ROW_H

#include "matrix.h"

enum : uint { GDM_PACKED_TURN = 32 * GDM_PACKED_LANES };

// The number of turns whose words a lane asks for together: one if that is as many bytes as two of 4 bits, or takes as many registers.
template <typename W> struct Together {
  enum : uint { turns = GDM_PACKED_TURNS };
};
template <> struct Together<Affine<8>> {
  enum : uint { turns = 1 };
};
template <> struct Together<Ggml> {
  enum : uint { turns = 1 };
};
// The most outputs of a lane: two if a block takes many operations that its elements share.
template <typename W> struct PackedOutputs {
  enum : uint { most = 1 };
};
template <> struct PackedOutputs<Ggml> {
  enum : uint { most = GDM_PACKED_OUTPUTS };
};
template <typename W> struct Turns {
  Words<W> words[Together<W>::turns];
};

// Whether the row has the 32 columns of this lane in the turn from column `first` on. Blocks of a turn or more have those of all
// lanes, so the condition is the same in all of them.
METAL_FUNC bool packed_has(uint first, uint lane, uint inputs) {
  return first + (1u << MATRIX_GROUP >= GDM_PACKED_TURN ? 0 : 32 * lane) < inputs;
}

// The turns from `ahead` of a row's place, whose column is `first`; nothing beyond the last.
template <typename W>
METAL_FUNC void turns_fetch(thread Turns<W>& turns, thread const MatrixRow<W>& row, uint ahead, uint first, uint lane, uint inputs) {
  GDM_UNROLL for (uint turn = 0; turn < Together<W>::turns; ++turn) {
    uint further = turn * GDM_PACKED_TURN;
    if (packed_has(first + further, lane, inputs)) words_fetch(turns.words[turn], row, ahead + further);
  }
}

template <typename T>
METAL_FUNC void packed_stage(threadgroup float4* memory, device const T* x, uint first, uint inputs, uint index) {
  GDM_UNROLL for (uint j = 0; j < GDM_PACKED_SPAN / 8 / GDM_PROJECT_THREADS; ++j) {
    uint at = 8 * (index + j * GDM_PROJECT_THREADS);
    if (first + at < inputs) {
      Raw<T> read;
      Eight v;
      MatrixRow<T> from = {x + first + at};
      row_fetch(read, from, 0, 0, 8);
      matrix_widen(v, read, 0);
      memory[at % 32 / 4 * GDM_PACKED_PITCH + at / 32] = v.lower;
      memory[(at % 32 / 4 + 1) * GDM_PACKED_PITCH + at / 32] = v.upper;
    }
  }
}

// The chains of all O outputs of a lane.
template <uint O> struct PackedSums {
  float chain[4 * O];
};

template <typename W, uint O>
METAL_FUNC void packed_add(thread PackedSums<O>& sums, thread Turns<W>* turns, thread const MatrixRow<W>* rows,
                           threadgroup const float4* memory, uint first, uint lane, uint inputs, uint unit) {
  GDM_UNROLL for (uint turn = 0; turn < Together<W>::turns; ++turn) {
    uint column = first + turn * GDM_PACKED_TURN;
    if (packed_has(column, lane, inputs)) {
      GDM_UNROLL for (uint b = 0; b < O; ++b) words_ready(turns[b].words[turn], rows[b], unit);
      threadgroup const float4* block = memory + (column % GDM_PACKED_SPAN / 32 + lane);
      GDM_UNROLL for (uint c = 0; c < 4; ++c) {
        float4 lower = block[2 * c * GDM_PACKED_PITCH];
        float4 upper = block[(2 * c + 1) * GDM_PACKED_PITCH];
        GDM_UNROLL for (uint b = 0; b < O; ++b) {
          Eight w;
          words_widen(w, turns[b].words[turn], rows[b], 8 * c, unit);
          sums.chain[4 * b + c] = chain4(chain4(sums.chain[4 * b + c], lower, w.lower), upper, w.upper);
        }
      }
    }
  }
}

template <typename T, typename W, uint O, typename ROWS>
METAL_FUNC void packed_row(device const T* x, device const ushort* weight, device const ushort* scales,
                           device const ushort* biases, device const T* residual, device T* out,
                           constant GDMProject& params, threadgroup float4* memory, ROWS rows, uint group, uint index) {
  constexpr uint step = Together<W>::turns * GDM_PACKED_TURN;
  static_assert(GDM_PACKED_SPAN % (2 * step) == 0, "x is put into threadgroup memory between two steps");
  uint lane = index % GDM_PACKED_LANES;
  uint firstOutput = (group * (GDM_PROJECT_THREADS / GDM_PACKED_LANES) + index / GDM_PACKED_LANES) * O;
  uint inputs = params.inputs;
  MatrixRow<W> row[O];
  Turns<W> now[O];
  Turns<W> next[O];
  PackedSums<O> sums;
  GDM_UNROLL for (uint b = 0; b < O; ++b) {
    matrix_place(row[b], weight, scales, biases, project_matrix(rows) + min(firstOutput + b, params.outputs - 1),
                 32 * lane, inputs);
    turns_fetch(now[b], row[b], 0, 0, lane, inputs);
    GDM_UNROLL for (uint c = 0; c < 4; ++c) sums.chain[4 * b + c] = 0.0f;
  }
  for (uint first = 0; first < inputs; first += 2 * step) {
    GDM_UNROLL for (uint b = 0; b < O; ++b) turns_fetch(next[b], row[b], step, first + step, lane, inputs);
    if (first % GDM_PACKED_SPAN == 0) {
      if (first > 0) threadgroup_barrier(mem_flags::mem_threadgroup);
      packed_stage(memory, x + project_x(rows, params, 0), first, inputs, index);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    packed_add<W, O>(sums, now, row, memory, first, lane, inputs, params.unit);
    GDM_UNROLL for (uint b = 0; b < O; ++b) {
      turns_fetch(now[b], row[b], 2 * step, first + 2 * step, lane, inputs);
      matrix_move(row[b], 2 * step);
    }
    packed_add<W, O>(sums, next, row, memory, first + step, lane, inputs, params.unit);
  }
  // The chains of an output, 36 floats from the next one's.
  GDM_UNROLL for (uint b = 0; b < O; ++b) {
    threadgroup float4* chains = memory + GDM_PACKED_MEMORY +
                                 (index / GDM_PACKED_LANES * O + b) * GDM_PROJECT_PITCH;
    chains[lane] = float4(sums.chain[4 * b], sums.chain[4 * b + 1], sums.chain[4 * b + 2], sums.chain[4 * b + 3]);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    uint output = firstOutput + b;
    if (lane == b && output < params.outputs) {
      project_store(out, residual, params, project_out(rows, params, 0) + output, project_residual(rows, 0), output,
                    chains_sum(chains));
    }
  }
}

// For packed W; nothing is compiled for others.
template <typename T, typename W, typename ROWS, uint PACKED> struct PackedRow {
  static METAL_FUNC void run(device const T* x, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, device const T* residual, device T* out,
                             constant GDMProject& params, threadgroup float4* memory, ROWS rows, uint group, uint index) {
    if (TWO_OUTPUTS) {
      packed_row<T, W, PackedOutputs<W>::most>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
    } else {
      packed_row<T, W, 1>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
    }
  }
};
template <typename X, typename W, typename ROWS> struct PackedRow<X, W, ROWS, 0> {
  static METAL_FUNC void run(device const X*, device const ushort*, device const ushort*, device const ushort*,
                             device const X*, device X*, constant GDMProject&, threadgroup float4*, ROWS, uint, uint) {}
};

#endif
