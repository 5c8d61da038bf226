// Gated RMS norm over the last dimension.
//
// x [tokens, heads, length] T, or f32 (NORM_X_F32); z likewise, T; out likewise, T or f32 (OUT_F32); token and head
// strides in elements, any length. weight [length]: NORM_WEIGHT_DTYPE. ALIGNED_ROWS: the length is a multiple of 4 and
// every row of x, z and out begins at a multiple of four elements' bytes.
//
// Grid: (ceil(rows / GDM_NORM_ROWS)) threadgroups of GDM_NORM_THREADS: one simdgroup per row, row = token heads + head.
// 1. Each lane sums the squares of its elements, four neighbours at a time, and keeps the first four or, NORM_PARTS = 2,
//    eight in registers. NORM_PARTS is 1 for lengths up to 128.
// 2. The lanes combine them.   3. Each lane writes its elements.
// Formula and order of the sum: norm.h. Function constants: NORM_SIGMOID, NORM_GATE_FIRST, NORM_X_F32,
// NORM_WEIGHT_DTYPE, NORM_WEIGHT_VECTORS, OUT_F32, ALIGNED_ROWS, NORM_PARTS.
#include "norm.h"

METAL_FUNC float4 norm_gates(float4 z) {
  float4 gates = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) gates[j] = norm_gate(z[j]);
  return gates;
}

METAL_FUNC float4 norm_operands(float4 x, float4 gates) {
  float4 u = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) u[j] = norm_operand(x[j], gates[j]);
  return u;
}

METAL_FUNC float4 norm_results(float4 x, float4 gates, float inverse, float4 w) {
  float4 y = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) y[j] = norm_result(x[j], gates[j], inverse, w[j]);
  return y;
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_NORM_THREADS)]]
kernel void gd_norm(device const T* x [[buffer(0)]],
                    device const T* z [[buffer(1)]],
                    device const ushort* weight [[buffer(2)]],
                    device T* out [[buffer(3)]],
                    constant GDMNorm& params [[buffer(4)]],
                    uint group [[threadgroup_position_in_grid]],
                    uint index [[thread_index_in_threadgroup]]) {
  constexpr uint held = 2;
  uint lane = index % GDM_SIMD_LANES;
  uint row = group * GDM_NORM_ROWS + index / GDM_SIMD_LANES;
  if (row >= params.rows) return;  // whole simdgroups
  uint token = row / params.heads;
  uint head = row - token * params.heads;
  uint length = params.length;
  ulong xAt = ulong(token) * params.xTokenStride + ulong(head) * params.xHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;
  device const T* xRow = wide_row(x, xAt, NORM_X_F32);
  device const T* zRow = z + (ulong(token) * params.zTokenStride + ulong(head) * params.zHeadStride);
  device T* outRow = wide_row(out, outAt, OUT_F32);

  float4 xs[held];
  float4 gs[held];
  float4 ws[held];
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    uint at = norm_element(lane, i);
    if (i < NORM_PARTS) {
      xs[i] = read_four(xRow, at, length, NORM_X_F32);
      gs[i] = read_four(zRow, at, length, false);
      ws[i] = norm_weights(weight, at, length);
    }
  }
  float sum = 0.0f;
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    if (i < NORM_PARTS) {
      gs[i] = norm_gates(gs[i]);
      sum = norm_squares(sum, norm_operands(xs[i], gs[i]), norm_element(lane, i), length);
    }
  }
  if (NORM_PARTS == held) {
    for (uint at = norm_element(lane, held); at < length; at += 4 * GDM_SIMD_LANES) {
      float4 gates = norm_gates(read_four(zRow, at, length, false));
      sum = norm_squares(sum, norm_operands(read_four(xRow, at, length, NORM_X_F32), gates), at, length);
    }
  }
  float inverse = norm_inverse(sum, length, params.epsilon);
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    if (i < NORM_PARTS) {
      write_four(outRow, norm_element(lane, i), length, norm_results(xs[i], gs[i], inverse, ws[i]), OUT_F32);
    }
  }
  if (NORM_PARTS == held) {
    for (uint at = norm_element(lane, held); at < length; at += 4 * GDM_SIMD_LANES) {
      float4 xi = read_four(xRow, at, length, NORM_X_F32);
      float4 gates = norm_gates(read_four(zRow, at, length, false));
      write_four(outRow, at, length, norm_results(xi, gates, inverse, norm_weights(weight, at, length)), OUT_F32);
    }
  }
}

// Names: gd_norm_<T>.
GDM_INSTANTIATE_T(gd_norm)
