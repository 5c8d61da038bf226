// A tile of rows by outputs of a projection, for projection.metal and expert_projection.metal. The order of its sums and the ways
// to spread it are at the head of projection.metal. A type says where rows are, all rows (AllRows) or those of an expert
// (expert_projection.metal), and gives
//   project_rows      the number of rows of the tile
//   project_x         the place of a row in x
//   project_out       the same in out
//   project_residual  the same in the residual, counted in rows
//   project_matrix    the first row of the matrix that serves them
//   most_turns        the turns of eight rows that are asked for together, at most
//
// Here a simdgroup has R rows (1, 2, 4 or 8) by some outputs, so that a weight read once serves all rows, and a lane has a chain
// of each sum. Past the edge a simdgroup repeats the last row or output, unstored. A lane asks for its weights, 8 neighbours of
// each output, of one turn or, if those are few bytes, of several, before it uses the first.
// Tiles of eight rows take at least 150 registers, those of four rows of packed weights 143: the host uses smaller tiles if the
// pipeline would have few threads, so there is no bound on threads.
#ifndef GATED_DELTA_SHADERS_PROJECTION_H
#define GATED_DELTA_SHADERS_PROJECTION_H

#include "projection_block.h"
#include "projection_matrix.h"

// Outputs of a simdgroup, and turns whose weights are asked for together. The host, too, knows the outputs.
template <typename W, uint PACKED, uint R> struct Tile {
  enum : uint { outputs = R == 1 ? GDM_PROJECT_OUTPUTS_1 : GDM_PROJECT_TILE, turns = 2 };
};
template <uint R> struct Tile<float, 0, R> {
  enum : uint { outputs = GDM_PROJECT_TILE, turns = 1 };
};
template <typename W, uint R> struct Tile<W, 1, R> {
  enum : uint { outputs = R == 1 ? GDM_PROJECT_OUTPUTS_1 : GDM_PROJECT_TILE, turns = R == 2 ? 1 : GDM_PROJECT_TURNS };
};
// A compiler that does not know the function constants yet would not unroll more elements.
template <uint R> struct Tile<Ggml, 1, R> {
  enum : uint { outputs = R == 1 ? GDM_PROJECT_OUTPUTS_1 : GDM_PROJECT_TILE, turns = R == 1 ? GDM_PROJECT_TURNS : R == 2 ? 1 : 2 };
};
// With MANY_TURNS, which the host sets only for one row of these weights: outputs and turns.
template <typename W, uint PACKED> struct ManyTurns {
  enum : uint { outputs = Tile<W, PACKED, 1>::outputs, turns = Tile<W, PACKED, 1>::turns, most = turns };
};
template <> struct ManyTurns<Affine<4>, 1> {
  enum : uint { outputs = GDM_PROJECT_OUTPUTS_1, turns = GDM_PROJECT_MANY_TURNS, most = GDM_PROJECT_MOST_TURNS };
};

// The reads that a lane asks for together: N turns of O outputs and, for one row, of x.
template <typename T, typename W, uint R, uint O, uint N> struct Fetched {
  Raw<W> weights[N * O];
  Raw<T> x[R == 1 ? N : 1];
};

// The rows of a simdgroup's tile, at this lane's chain.
template <typename T, typename W, uint R, uint O> struct TileRows {
  MatrixRow<T> x[R];
  MatrixRow<W> weights[O];
};

// The turns from the rows' places, whose column is `at`; nothing beyond the last column.
template <typename T, typename W, uint R, uint O, uint N>
METAL_FUNC void tile_fetch(thread Fetched<T, W, R, O, N>& to, thread const TileRows<T, W, R, O>& from, uint at,
                           uint inputs) {
  GDM_UNROLL for (uint turn = 0; turn < N; ++turn) {
    uint further = turn * GDM_PROJECT_TURN;
    if (at + further < inputs) {
      GDM_UNROLL for (uint b = 0; b < O; ++b) {
        matrix_fetch(to.weights[turn * O + b], from.weights[b], further, at + further, inputs);
        if (R != 1) matrix_ready(to.weights[turn * O + b]);
      }
      if (R == 1) row_fetch(to.x[R == 1 ? turn : 0], from.x[0], further, at + further, inputs);
    }
  }
}

template <typename T, typename W, uint R, uint O, uint N>
METAL_FUNC void tile_add(thread float* sum, thread Fetched<T, W, R, O, N>& fetched,
                         thread const TileRows<T, W, R, O>& from, uint at, uint inputs, uint unit) {
  GDM_UNROLL for (uint turn = 0; turn < N; ++turn) {
    uint column = at + turn * GDM_PROJECT_TURN;
    if (column < inputs) {
      Eight w[O];
      GDM_UNROLL for (uint b = 0; b < O; ++b) {
        // For one row, not where the weights are asked for: it waits for the read. Many rows have no registers left for it.
        if (R == 1) matrix_ready(fetched.weights[turn * O + b]);
        matrix_widen(w[b], fetched.weights[turn * O + b], unit);
      }
      GDM_UNROLL for (uint a = 0; a < R; ++a) {
        Raw<T> read = fetched.x[R == 1 ? turn : 0];
        Eight v;
        if (R != 1) row_fetch(read, from.x[a], turn * GDM_PROJECT_TURN, column, inputs);
        matrix_widen(v, read, unit);
        GDM_UNROLL for (uint b = 0; b < O; ++b) sum[a * O + b] = chain8(sum[a * O + b], v, w[b], column, inputs);
      }
    }
  }
}

template <typename T, typename W, uint R, uint O, uint N, typename ROWS>
METAL_FUNC void project_tile_of(device const T* x, device const ushort* weight, device const ushort* scales,
                                device const ushort* biases, device const T* residual, device T* out,
                                constant GDMProject& params, threadgroup float4* memory, ROWS rows, uint group, uint index) {
  constexpr uint step = N * GDM_PROJECT_TURN;
  // The AND-OR's constant as an argument takes more registers, and many rows have none left.
  uint unit = R == 1 ? params.unit : uint(GDM_PROJECT_UNIT);
  uint lane = index % GDM_SIMD_LANES;
  uint simdgroup = index / GDM_SIMD_LANES;
  uint firstOutput = (group * (GDM_PROJECT_THREADS / GDM_SIMD_LANES) + simdgroup) * O;
  uint last = project_rows(rows, params) - 1;
  uint inputs = params.inputs;
  TileRows<T, W, R, O> from;
  Fetched<T, W, R, O, N> now;
  float sum[R * O];
  GDM_UNROLL for (uint b = 0; b < O; ++b) {
    matrix_place(from.weights[b], weight, scales, biases, project_matrix(rows) + min(firstOutput + b, params.outputs - 1),
                 8 * lane, inputs);
  }
  GDM_UNROLL for (uint a = 0; a < R; ++a) {
    from.x[a].row = x + (project_x(rows, params, min(a, last)) + 8 * lane);
    GDM_UNROLL for (uint b = 0; b < O; ++b) sum[a * O + b] = 0.0f;
  }
  for (uint i = 8 * lane; i < inputs; i += step) {
    tile_fetch(now, from, i, inputs);
    tile_add(sum, now, from, i, inputs, unit);
    GDM_UNROLL for (uint a = 0; a < R; ++a) matrix_move(from.x[a], step);
    GDM_UNROLL for (uint b = 0; b < O; ++b) matrix_move(from.weights[b], step);
  }

  // Chains of GDM_PROJECT_SUMS sums at a time go through threadgroup memory; lane n adds those of sum n.
  constexpr uint most = R * O < GDM_PROJECT_SUMS ? R * O : uint(GDM_PROJECT_SUMS);
  threadgroup float* own = (threadgroup float*)(memory + simdgroup * (GDM_PROJECT_MEMORY / 4));
  GDM_UNROLL for (uint first = 0; first < R * O; first += most) {
    if (first > 0) simdgroup_barrier(mem_flags::mem_threadgroup);
    GDM_UNROLL for (uint k = 0; k < most; ++k) own[4 * GDM_PROJECT_PITCH * k + lane] = sum[first + k];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    uint row = (first + lane) / O;
    uint output = firstOutput + (first + lane) % O;
    if (lane < most && row <= last && output < params.outputs) {
      float total = chains_sum((threadgroup const float4*)own + GDM_PROJECT_PITCH * lane);
      project_store(out, residual, params, project_out(rows, params, row) + output, project_residual(rows, row), output, total);
    }
  }
}

template <typename T, typename W, uint R, typename ROWS>
METAL_FUNC void project_rows_of(device const T* x, device const ushort* weight, device const ushort* scales,
                                device const ushort* biases, device const T* residual, device T* out,
                                constant GDMProject& params, threadgroup float4* memory, ROWS rows, uint group, uint index) {
  typedef Tile<W, IsPacked<W>::value, R> Spread;
  constexpr uint turns = R == 8 && Spread::turns > ROWS::most_turns ? uint(ROWS::most_turns) : uint(Spread::turns);
  project_tile_of<T, W, R, Spread::outputs, turns>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
}

template <typename T, typename W, typename ROWS>
METAL_FUNC void project_tile(device const T* x, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, device const T* residual, device T* out,
                             constant GDMProject& params, threadgroup float4* memory, ROWS rows, uint group, uint index) {
  constexpr uint packed = IsPacked<W>::value;
  typedef ManyTurns<W, packed> Many;
  if (MATRICES) {
    project_matrices<T, W>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  } else if (MANY_ROWS) {
    project_block<T, W>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  } else if (packed == 1 && TILE_ROWS == 1 && PACKED_ROW) {
    PackedRow<T, W, ROWS, packed>::run(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  } else if (TILE_ROWS == 1 && MANY_TURNS == 1) {
    project_tile_of<T, W, 1, 1, Many::most>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  } else if (TILE_ROWS == 1 && MANY_TURNS == 2) {
    project_tile_of<T, W, 1, Many::outputs, Many::turns>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  } else if (TILE_ROWS == 1) {
    project_rows_of<T, W, 1>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  } else if (TILE_ROWS == 2) {
    project_rows_of<T, W, 2>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  } else if (TILE_ROWS == 4) {
    project_rows_of<T, W, 4>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  } else {
    project_rows_of<T, W, 8>(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
  }
}

#endif
