// Plain linear projection: out[r, o] = sum over i of x[r, i] weight[o, i], accumulated in float32.
//
// x [rows, inputs] T, out [rows, outputs] T or f32 (OUT_F32), row strides in elements; weight [outputs, inputs] W.
// ALIGNED_ROWS: inputs are a multiple of 8, and every row of x and weight begins at a multiple of 16 bytes.
//
// The order of a sum, for one row as for many and for any way to store weights (a quantised one is w = fma(q, scale,
// bias) first, and eight of them are a whole number of bytes at any width):
//   1. chain c = 0 .. 31 takes elements 8 (c + 32 i) + 0 .. 7, i = 0, 1, ..., in ascending order by fma, from 0
//   2. chains add by xor 1, 2, 4, 8, 16 of their number
// It depends on `inputs` alone. Here a chain is a lane. A kernel of many rows with a thread an output can go through
// the chains depth first instead, and holds five partial sums at most.
//
// Grid: (ceil(outputs / 16), ceil(rows / PROJECT_ROWS)) threadgroups of GDM_PROJECT_THREADS. A simdgroup makes a tile of 4 outputs
// by PROJECT_ROWS rows (1, 4 or 8), so that a weight read once serves them all; past the edge it repeats the last row or output,
// unstored. A lane's weights of a turn, 4 x 8 neighbours, are all asked for before the first is used.
// Function constants: OUT_F32, ALIGNED_ROWS, PROJECT_ROWS.
#include "storage.h"

// Elements at .. at + 7; those from `inputs` on are zeros.
struct Eight {
  float4 lower;
  float4 upper;
};
template <typename T> METAL_FUNC void eight_load(thread Eight& v, device const T* row, uint at, uint inputs) {
  typedef typename Vec4<T>::type T4;
  if (ALIGNED_ROWS) {
    v.lower = Vec4<T>::widen(*(device const T4*)(row + at));
    v.upper = Vec4<T>::widen(*(device const T4*)(row + at + 4));
    return;
  }
  v.lower = float4(0.0f);
  v.upper = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < inputs) v.lower[j] = float(row[at + j]);
    if (at + 4 + j < inputs) v.upper[j] = float(row[at + 4 + j]);
  }
}

METAL_FUNC float chain4(float sum, float4 a, float4 b) {
  sum = fma(a.x, b.x, sum);
  sum = fma(a.y, b.y, sum);
  sum = fma(a.z, b.z, sum);
  return fma(a.w, b.w, sum);
}

// Past the last input nothing is added: a product with padding would make NaN of an infinite neighbour.
METAL_FUNC float chain8(float sum, thread const Eight& a, thread const Eight& b, uint at, uint inputs) {
  if (ALIGNED_ROWS || at + 8 <= inputs) return chain4(chain4(sum, a.lower, b.lower), a.upper, b.upper);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) sum = at + j < inputs ? fma(a.lower[j], b.lower[j], sum) : sum;
  GDM_UNROLL for (uint j = 0; j < 4; ++j) sum = at + 4 + j < inputs ? fma(a.upper[j], b.upper[j], sum) : sum;
  return sum;
}

template <typename T, typename W>
[[max_total_threads_per_threadgroup(GDM_PROJECT_THREADS)]]
kernel void gd_project(device const T* x [[buffer(0)]],
                       device const W* weight [[buffer(1)]],
                       device T* out [[buffer(2)]],
                       constant GDMProject& params [[buffer(3)]],
                       uint2 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  constexpr uint tile = GDM_PROJECT_TILE;
  constexpr uint simdgroups = GDM_PROJECT_THREADS / GDM_SIMD_LANES;
  uint lane = index % GDM_SIMD_LANES;
  uint firstOutput = (group.x * simdgroups + index / GDM_SIMD_LANES) * tile;
  uint firstRow = group.y * PROJECT_ROWS;
  uint inputs = params.inputs;

  device const T* xRow[GDM_PROJECT_ROWS];
  device const W* weightRow[tile];
  float sum[GDM_PROJECT_ROWS][tile];
  GDM_UNROLL for (uint b = 0; b < tile; ++b) {
    weightRow[b] = weight + ulong(min(firstOutput + b, params.outputs - 1)) * inputs;
  }
  GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
    xRow[a] = x + ulong(min(firstRow + a, params.rows - 1)) * params.xRowStride;
    GDM_UNROLL for (uint b = 0; b < tile; ++b) sum[a][b] = 0.0f;
  }
  for (uint i = 8 * lane; i < inputs; i += 8 * GDM_SIMD_LANES) {
    Eight w[tile];
    GDM_UNROLL for (uint b = 0; b < tile; ++b) eight_load(w[b], weightRow[b], i, inputs);
    GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
      if (a < PROJECT_ROWS) {
        Eight v;
        eight_load(v, xRow[a], i, inputs);
        GDM_UNROLL for (uint b = 0; b < tile; ++b) sum[a][b] = chain8(sum[a][b], v, w[b], i, inputs);
      }
    }
  }
  GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
    if (a < PROJECT_ROWS) {
      GDM_UNROLL for (uint b = 0; b < tile; ++b) {
        float total = sum[a][b];
        total += simd_shuffle_xor(total, ushort(1));
        total += simd_shuffle_xor(total, ushort(2));
        total += simd_shuffle_xor(total, ushort(4));
        total += simd_shuffle_xor(total, ushort(8));
        total += simd_shuffle_xor(total, ushort(16));
        // Every lane has the total; lane (a, b) of the tile writes it.
        if (lane == a * tile + b && firstRow + a < params.rows && firstOutput + b < params.outputs) {
          write_wide(out, ulong(firstRow + a) * params.outRowStride + (firstOutput + b), total, OUT_F32);
        }
      }
    }
  }
}

// Names: gd_project_<T>_<W>.
GDM_INSTANTIATE_TS(gd_project)
