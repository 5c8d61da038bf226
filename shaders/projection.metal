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
  constexpr uint packed = IsPacked<W>::value;
  typedef Tile<W, packed> Shape;
  if (packed == 1 && TILE_ROWS == 1 && PACKED_ROW) {
    PackedRow<T, W, packed>::run(x, weight, scales, biases, residual, out, params, memory, group.y, index);
    return;
  }
  constexpr uint tile = GDM_PROJECT_TILE;
  constexpr uint simdgroups = GDM_PROJECT_THREADS / GDM_SIMD_LANES;
  constexpr uint step = 8 * GDM_SIMD_LANES;
  constexpr uint most = Shape::many;
  uint outs = TILE_ROWS == 1 ? Shape::outputs : tile;
  uint turns = TILE_ROWS == 1 ? Shape::turns : TILE_ROWS == 2 ? Shape::fewest : Shape::many;
  uint lane = index % GDM_SIMD_LANES;
  uint firstOutput = (group.y * simdgroups + index / GDM_SIMD_LANES) * outs;
  uint firstRow = group.x * TILE_ROWS;
  uint inputs = params.inputs;

  MatrixRow<T> xRow[GDM_PROJECT_ROWS];
  MatrixRow<W> weightRow[tile];
  float sum[GDM_PROJECT_ROWS * tile];
  GDM_UNROLL for (uint b = 0; b < tile; ++b) {
    if (b < outs) {
      matrix_place(weightRow[b], weight, scales, biases, min(firstOutput + b, params.outputs - 1), 8 * lane, inputs);
    }
  }
  GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
    xRow[a].row = x + (ulong(min(firstRow + a, params.rows - 1)) * params.xRowStride + 8 * lane);
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
  uint row = firstRow + lane / tile;
  uint output = firstOutput + lane % tile;
  if (lane < sums && lane % tile < outs && row < params.rows && output < params.outputs) {
    project_store(out, residual, params, row, output, sum[0]);
  }
}

// Names: gd_project_<T>_<W>, W a float dtype or what unpacks, such as affine4.
GDM_INSTANTIATE_TW(gd_project)
