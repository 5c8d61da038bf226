// A tile of rows by outputs of a projection, for projection.metal and expert_projection.metal: the order of its sums and the
// way that it is spread stand at the head of projection.metal. Rows: where they are, of all rows (AllRows) or of an expert's
// (expert_projection.metal), which gives
//   project_rows      how many rows the tile has, of TILE_ROWS
//   project_x         the place of a row in x
//   project_out       the same in out
//   project_residual  the same in the residual, counted in rows
//   project_matrix    the first row of the matrix that serves them
#ifndef GATED_DELTA_SHADERS_PROJECTION_H
#define GATED_DELTA_SHADERS_PROJECTION_H

#include "packed_row.h"

// Outputs of a simdgroup for one row, and turns whose weights are asked for together: for one row, for tiles of four and of
// eight, and for tiles of two. The host knows the outputs, too.
template <typename W, uint PACKED> struct Tile {
  enum : uint { outputs = GDM_PROJECT_OUTPUTS_1, turns = 2, many = 2, fewest = 2 };
};
template <> struct Tile<float, 0> {
  enum : uint { outputs = GDM_PROJECT_TILE, turns = 1, many = 1, fewest = 1 };
};
template <typename W> struct Tile<W, 1> {
  enum : uint { outputs = 1, turns = GDM_PROJECT_TURNS, many = GDM_PROJECT_TURNS, fewest = 1 };
};

template <typename T, typename W, typename ROWS>
METAL_FUNC void project_tile(device const T* x, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, device const T* residual, device T* out,
                             constant GDMProject& params, threadgroup float4* memory, ROWS rows, uint group, uint index) {
  constexpr uint packed = IsPacked<W>::value;
  typedef Tile<W, packed> Shape;
  if (packed == 1 && TILE_ROWS == 1 && PACKED_ROW) {
    PackedRow<T, W, ROWS, packed>::run(x, weight, scales, biases, residual, out, params, memory, rows, group, index);
    return;
  }
  constexpr uint tile = GDM_PROJECT_TILE;
  constexpr uint simdgroups = GDM_PROJECT_THREADS / GDM_SIMD_LANES;
  constexpr uint step = 8 * GDM_SIMD_LANES;
  constexpr uint most = Shape::many;
  uint outs = TILE_ROWS == 1 ? Shape::outputs : tile;
  uint turns = TILE_ROWS == 1 ? Shape::turns : TILE_ROWS == 2 ? Shape::fewest : Shape::many;
  uint lane = index % GDM_SIMD_LANES;
  uint firstOutput = (group * simdgroups + index / GDM_SIMD_LANES) * outs;
  uint last = project_rows(rows, params) - 1;
  uint inputs = params.inputs;

  MatrixRow<T> xRow[GDM_PROJECT_ROWS];
  MatrixRow<W> weightRow[tile];
  float sum[GDM_PROJECT_ROWS * tile];
  GDM_UNROLL for (uint b = 0; b < tile; ++b) {
    if (b < outs) {
      matrix_place(weightRow[b], weight, scales, biases, project_matrix(rows) + min(firstOutput + b, params.outputs - 1),
                   8 * lane, inputs);
    }
  }
  GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
    xRow[a].row = x + (project_x(rows, params, min(a, last)) + 8 * lane);
    GDM_UNROLL for (uint b = 0; b < tile; ++b) sum[a * tile + b] = 0.0f;
  }
  for (uint i = 8 * lane; i < inputs; i += turns * step) {
    Raw<W> raw[most][tile];
    Raw<T> one[most];  // of one row: asked for with the weights
    GDM_UNROLL for (uint turn = 0; turn < most; ++turn) {
      uint at = i + turn * step;
      if (turn < turns && at < inputs) {
        GDM_UNROLL for (uint b = 0; b < tile; ++b) {
          if (b < outs) matrix_fetch(raw[turn][b], weightRow[b], turn * step, at, inputs);
        }
        if (TILE_ROWS == 1) row_fetch(one[turn], xRow[0], turn * step, at, inputs);
      }
    }
    GDM_UNROLL for (uint turn = 0; turn < most; ++turn) {
      uint at = i + turn * step;
      if (turn < turns && at < inputs) {
        Eight w[tile];
        GDM_UNROLL for (uint b = 0; b < tile; ++b) {
          if (b < outs) matrix_widen(w[b], raw[turn][b], GDM_PROJECT_UNIT);
        }
        GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
          if (a < TILE_ROWS) {
            Raw<T> read = one[turn];
            Eight v;
            if (TILE_ROWS != 1) row_fetch(read, xRow[a], turn * step, at, inputs);
            matrix_widen(v, read, GDM_PROJECT_UNIT);
            GDM_UNROLL for (uint b = 0; b < tile; ++b) {
              if (b < outs) sum[a * tile + b] = chain8(sum[a * tile + b], v, w[b], at, inputs);
            }
          }
        }
      }
    }
    GDM_UNROLL for (uint b = 0; b < tile; ++b) {
      if (b < outs) matrix_move(weightRow[b], turns * step);
    }
    GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
      if (a < TILE_ROWS) matrix_move(xRow[a], turns * step);
    }
  }

  // The tree, for all sums at once: where two are left, a lane keeps the one of its bit and gives the other away. In the
  // end lane n has sum n, of row n / 4 and output n % 4.
  uint sums = TILE_ROWS * tile;
  GDM_UNROLL for (uint bit = 0; bit < 5; ++bit) {
    ushort other = ushort(1u << bit);
    bool upper = (lane >> bit & 1) != 0;
    if (sums >> bit > 1) {
      GDM_UNROLL for (uint k = 0; k < GDM_PROJECT_ROWS * tile / 2; ++k) {
        if (k < sums >> (bit + 1)) {
          float kept = upper ? sum[2 * k + 1] : sum[2 * k];
          float given = upper ? sum[2 * k] : sum[2 * k + 1];
          sum[k] = kept + simd_shuffle_xor(given, other);
        }
      }
    } else {
      sum[0] += simd_shuffle_xor(sum[0], other);
    }
  }
  uint row = lane / tile;
  uint output = firstOutput + lane % tile;
  if (lane < sums && lane % tile < outs && row <= last && output < params.outputs) {
    project_store(out, residual, params, project_out(rows, params, row) + output, project_residual(rows, row), output, sum[0]);
  }
}

#endif
