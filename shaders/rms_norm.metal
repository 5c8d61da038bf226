// RMS norm over the last dimension, without a gate.
//
//   out = (x r) w or, plusOne, (x r) (1 + w)      r = rsqrt(mean x^2 + eps)        (Zhang and Sennrich 2019)
//
// x [tokens, heads, length] T; out likewise, T or f32 (OUT_F32); token and head strides in elements, any length.
// weight [length]: NORM_WEIGHT_DTYPE.
//
// Grid: (ceil(rows / GDM_NORM_ROWS)) threadgroups of GDM_NORM_THREADS: one simdgroup a row, row = token heads + head.
// 1. Each lane sums the squares of its elements.   2. The lanes combine them.   3. Each lane writes its elements.
// Order of the sum: lane l adds elements l, l + 32, ... by fma, then lanes as in norm.h. Function constants:
// NORM_WEIGHT_DTYPE, OUT_F32.
#include "norm.h"

template <typename T>
[[max_total_threads_per_threadgroup(GDM_NORM_THREADS)]]
kernel void gd_rms_norm(device const T* x [[buffer(0)]],
                        device const ushort* weight [[buffer(1)]],
                        device T* out [[buffer(2)]],
                        constant GDMRMSNorm& params [[buffer(3)]],
                        uint group [[threadgroup_position_in_grid]],
                        uint index [[thread_index_in_threadgroup]]) {
  uint lane = index % GDM_SIMD_LANES;
  uint row = group * GDM_NORM_ROWS + index / GDM_SIMD_LANES;
  if (row >= params.rows) return;  // whole simdgroups
  uint token = row / params.heads;
  uint head = row - token * params.heads;
  ulong xAt = ulong(token) * params.xTokenStride + ulong(head) * params.xHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;

  float sum = 0.0f;
  for (uint i = lane; i < params.length; i += GDM_SIMD_LANES) {
    float u = float(x[xAt + i]);
    sum = fma(u, u, sum);
  }
  float inverse = norm_inverse(sum, params.length, params.epsilon);
  for (uint i = lane; i < params.length; i += GDM_SIMD_LANES) {
    float w = read_any(weight, i, NORM_WEIGHT_DTYPE);
    if (params.plusOne != 0) w = 1.0f + w;
    write_wide(out, outAt + i, (float(x[xAt + i]) * inverse) * w, OUT_F32);
  }
}

// Names: gd_rms_norm_<T>.
GDM_INSTANTIATE_T(gd_rms_norm)
