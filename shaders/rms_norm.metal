// RMS norm over the last dimension, without a gate.
//
//   out = (x r) w or, plusOne, (x r) (1 + w)      r = rsqrt(mean x^2 + eps)        (Zhang and Sennrich 2019)
//
// x [tokens, heads, length] T; out likewise, T or f32 (OUT_F32); token and head strides in elements, any length.
// weight [length]: NORM_WEIGHT_DTYPE. ALIGNED_ROWS: as in norm.metal.
//
// Grid: (ceil(rows / GDM_NORM_ROWS)) threadgroups of GDM_NORM_THREADS: one simdgroup per row, row = token heads + head.
// 1. Each lane sums the squares of its elements, RMS_PARTS groups of four read before the first is used.   2. The lanes
// combine them.   3. Each lane writes its elements, as many at a time.
// Order of the sum: norm.h. Function constants: NORM_WEIGHT_DTYPE, NORM_WEIGHT_VECTORS, OUT_F32, ALIGNED_ROWS.
#include "norm.h"

enum { RMS_PARTS = 4, RMS_STRIDE = 4 * GDM_SIMD_LANES };

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

  device const T* xRow = x + xAt;
  device T* outRow = wide_row(out, outAt, OUT_F32);
  uint length = params.length;

  float sum = 0.0f;
  for (uint first = 4 * lane; first < length; first += RMS_PARTS * RMS_STRIDE) {
    float4 u[RMS_PARTS];
    GDM_UNROLL for (uint i = 0; i < RMS_PARTS; ++i) u[i] = read_four(xRow, first + i * RMS_STRIDE, length, false);
    GDM_UNROLL for (uint i = 0; i < RMS_PARTS; ++i) sum = norm_squares(sum, u[i], first + i * RMS_STRIDE, length);
  }
  float inverse = norm_inverse(sum, length, params.epsilon);
  for (uint first = 4 * lane; first < length; first += RMS_PARTS * RMS_STRIDE) {
    float4 u[RMS_PARTS];
    float4 w[RMS_PARTS];
    GDM_UNROLL for (uint i = 0; i < RMS_PARTS; ++i) {
      u[i] = read_four(xRow, first + i * RMS_STRIDE, length, false);
      w[i] = norm_weights(weight, first + i * RMS_STRIDE, length);
    }
    GDM_UNROLL for (uint i = 0; i < RMS_PARTS; ++i) {
      if (params.plusOne != 0) w[i] = 1.0f + w[i];
      write_four(outRow, first + i * RMS_STRIDE, length, (u[i] * inverse) * w[i], OUT_F32);
    }
  }
}

// Names: gd_rms_norm_<T>.
GDM_INSTANTIATE_T(gd_rms_norm)
