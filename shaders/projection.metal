// Plain linear projection: out[r, o] = sum over i of x[r, i] weight[o, i], accumulated in float32.
//
// x [rows, inputs] T, out [rows, outputs] T or f32 (OUT_F32), row strides in elements; weight [outputs, inputs] W.
//
// Grid: (ceil(outputs / 16), ceil(rows / 4)) threadgroups of GDM_PROJECT_THREADS. A simdgroup makes a tile of 4 outputs
// by 4 rows, so that a weight read once serves four rows; past the edge it repeats the last row or output, unstored.
//
// 1. Lane l sums elements l, l + 32, ... of each of the 16 products, in order, by fma.
// 2. Lanes add by xor 1, 2, 4, 8, 16. The order depends on `inputs` alone, not on the tile or the number of rows.
// Function constants: OUT_F32.
#include "storage.h"

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
  uint firstRow = group.y * tile;

  device const T* xRow[tile];
  device const W* weightRow[tile];
  float sum[tile][tile];
  for (uint a = 0; a < tile; ++a) {
    xRow[a] = x + ulong(min(firstRow + a, params.rows - 1)) * params.xRowStride;
    weightRow[a] = weight + ulong(min(firstOutput + a, params.outputs - 1)) * params.inputs;
    for (uint b = 0; b < tile; ++b) sum[a][b] = 0.0f;
  }
  for (uint i = lane; i < params.inputs; i += GDM_SIMD_LANES) {
    float w[tile];
    for (uint b = 0; b < tile; ++b) w[b] = float(weightRow[b][i]);
    for (uint a = 0; a < tile; ++a) {
      float v = float(xRow[a][i]);
      for (uint b = 0; b < tile; ++b) sum[a][b] = fma(v, w[b], sum[a][b]);
    }
  }
  for (uint a = 0; a < tile; ++a) {
    for (uint b = 0; b < tile; ++b) {
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

// Names: gd_project_<T>_<W>.
template [[host_name("gd_project_f32_f32")]] kernel decltype(gd_project<float, float>) gd_project<float, float>;
template [[host_name("gd_project_f32_f16")]] kernel decltype(gd_project<float, half>) gd_project<float, half>;
template [[host_name("gd_project_f32_bf16")]] kernel decltype(gd_project<float, bfloat>) gd_project<float, bfloat>;
template [[host_name("gd_project_f16_f32")]] kernel decltype(gd_project<half, float>) gd_project<half, float>;
template [[host_name("gd_project_f16_f16")]] kernel decltype(gd_project<half, half>) gd_project<half, half>;
template [[host_name("gd_project_f16_bf16")]] kernel decltype(gd_project<half, bfloat>) gd_project<half, bfloat>;
template [[host_name("gd_project_bf16_f32")]] kernel decltype(gd_project<bfloat, float>) gd_project<bfloat, float>;
template [[host_name("gd_project_bf16_f16")]] kernel decltype(gd_project<bfloat, half>) gd_project<bfloat, half>;
template [[host_name("gd_project_bf16_bf16")]] kernel decltype(gd_project<bfloat, bfloat>) gd_project<bfloat, bfloat>;
