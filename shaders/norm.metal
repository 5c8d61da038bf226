// Gated RMS norm over the last dimension.
//
// x [tokens, heads, length] T, or f32 (NORM_X_F32); z likewise, T; out likewise, T or f32 (OUT_F32); token and head
// strides in elements, any length. weight [length]: NORM_WEIGHT_DTYPE.
//
// Grid: (ceil(rows / GDM_NORM_ROWS)) threadgroups of GDM_NORM_THREADS: one simdgroup a row, row = token heads + head.
// 1. Each lane sums the squares of its elements.   2. The lanes combine them.   3. Each lane writes its elements.
// Formula and order of the sum: norm.h. Function constants: NORM_SIGMOID, NORM_GATE_FIRST, NORM_X_F32,
// NORM_WEIGHT_DTYPE, OUT_F32.
#include "norm.h"

template <typename T>
[[max_total_threads_per_threadgroup(GDM_NORM_THREADS)]]
kernel void gd_norm(device const T* x [[buffer(0)]],
                    device const T* z [[buffer(1)]],
                    device const ushort* weight [[buffer(2)]],
                    device T* out [[buffer(3)]],
                    constant GDMNorm& params [[buffer(4)]],
                    uint group [[threadgroup_position_in_grid]],
                    uint index [[thread_index_in_threadgroup]]) {
  uint lane = index % GDM_SIMD_LANES;
  uint row = group * GDM_NORM_ROWS + index / GDM_SIMD_LANES;
  if (row >= params.rows) return;  // whole simdgroups
  uint token = row / params.heads;
  uint head = row - token * params.heads;
  ulong xAt = ulong(token) * params.xTokenStride + ulong(head) * params.xHeadStride;
  ulong zAt = ulong(token) * params.zTokenStride + ulong(head) * params.zHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;

  float sum = 0.0f;
  for (uint i = lane; i < params.length; i += GDM_SIMD_LANES) {
    float u = norm_operand(read_wide(x, xAt + i, NORM_X_F32), float(z[zAt + i]));
    sum = fma(u, u, sum);
  }
  float inverse = norm_inverse(sum, params.length, params.epsilon);
  for (uint i = lane; i < params.length; i += GDM_SIMD_LANES) {
    float w = read_any(weight, i, NORM_WEIGHT_DTYPE);
    float y = norm_result(read_wide(x, xAt + i, NORM_X_F32), float(z[zAt + i]), inverse, w);
    write_wide(out, outAt + i, y, OUT_F32);
  }
}

// Names: gd_norm_<T>.
template [[host_name("gd_norm_f32")]] kernel decltype(gd_norm<float>) gd_norm<float>;
template [[host_name("gd_norm_f16")]] kernel decltype(gd_norm<half>) gd_norm<half>;
template [[host_name("gd_norm_bf16")]] kernel decltype(gd_norm<bfloat>) gd_norm<bfloat>;
