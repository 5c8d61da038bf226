// Gated RMS norm over the last dimension.
//
// x [tokens, heads, length] T, or f32 (NORM_X_F32); z likewise, T; out likewise, T or f32 (OUT_F32); token and head
// strides in elements, any length. weight [length]: NORM_WEIGHT_DTYPE. ALIGNED_ROWS: the length is a multiple of 4 and
// every row of all four begins at a multiple of four elements' bytes.
//
// Grid: (ceil(rows / GDM_NORM_ROWS)) threadgroups of GDM_NORM_THREADS: one simdgroup a row, row = token heads + head.
// 1. Each lane sums the squares of its elements, four neighbours at a time, and keeps the first four or, NORM_PARTS = 2,
//    eight in registers. NORM_PARTS is 1 for lengths to 128.
// 2. The lanes combine them.   3. Each lane writes its elements.
// Formula and order of the sum: norm.h. Function constants: NORM_SIGMOID, NORM_GATE_FIRST, NORM_X_F32,
// NORM_WEIGHT_DTYPE, OUT_F32, ALIGNED_ROWS, NORM_PARTS.
#include "norm.h"

// Elements at .. at + 3 of a row; those from `length` on are zeros.
template <typename T> METAL_FUNC float4 norm_load(device const T* row, uint at, uint length, bool wide) {
  if (ALIGNED_ROWS) {
    if (at >= length) return float4(0.0f);
    if (wide) return *(device const float4*)((device const float*)row + at);
    return Vec4<T>::widen(*(device const typename Vec4<T>::type*)(row + at));
  }
  float4 v = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < length) v[j] = read_wide(row, at + j, wide);
  }
  return v;
}

METAL_FUNC float4 norm_weights(device const ushort* weight, uint at, uint length) {
  if (ALIGNED_ROWS && NORM_WEIGHT_DTYPE == GDM_F32) {
    return at < length ? *(device const float4*)((device const float*)weight + at) : float4(0.0f);
  }
  float4 v = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < length) v[j] = read_any(weight, at + j, NORM_WEIGHT_DTYPE);
  }
  return v;
}

template <typename T> METAL_FUNC void norm_store(device T* row, uint at, uint length, float4 v) {
  if (ALIGNED_ROWS) {
    if (at >= length) return;
    if (OUT_F32) *(device float4*)((device float*)row + at) = v;
    else *(device typename Vec4<T>::type*)(row + at) = Vec4<T>::round(v);
    return;
  }
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < length) write_wide(row, at + j, v[j], OUT_F32);
  }
}

METAL_FUNC float4 norm_gates(float4 z) {
  float4 gates = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) gates[j] = norm_gate(z[j]);
  return gates;
}

METAL_FUNC float norm_squares(float sum, float4 x, float4 gates, uint at, uint length) {
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    float u = norm_operand(x[j], gates[j]);
    if (ALIGNED_ROWS || at + j < length) sum = fma(u, u, sum);
  }
  return sum;
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
  device const T* xRow = NORM_X_F32 ? (device const T*)((device const float*)x + xAt) : x + xAt;
  device const T* zRow = z + (ulong(token) * params.zTokenStride + ulong(head) * params.zHeadStride);
  device T* outRow = OUT_F32 ? (device T*)((device float*)out + outAt) : out + outAt;

  float4 xs[held];
  float4 gs[held];
  float4 ws[held];
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    uint at = norm_element(lane, i);
    if (i < NORM_PARTS) {
      xs[i] = norm_load(xRow, at, length, NORM_X_F32);
      gs[i] = norm_load(zRow, at, length, false);
      ws[i] = norm_weights(weight, at, length);
    }
  }
  float sum = 0.0f;
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    if (i < NORM_PARTS) {
      gs[i] = norm_gates(gs[i]);
      sum = norm_squares(sum, xs[i], gs[i], norm_element(lane, i), length);
    }
  }
  if (NORM_PARTS == held) {
    for (uint at = norm_element(lane, held); at < length; at += 4 * GDM_SIMD_LANES) {
      float4 gates = norm_gates(norm_load(zRow, at, length, false));
      sum = norm_squares(sum, norm_load(xRow, at, length, NORM_X_F32), gates, at, length);
    }
  }
  float inverse = norm_inverse(sum, length, params.epsilon);
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    if (i < NORM_PARTS) {
      norm_store(outRow, norm_element(lane, i), length, norm_results(xs[i], gs[i], inverse, ws[i]));
    }
  }
  if (NORM_PARTS == held) {
    for (uint at = norm_element(lane, held); at < length; at += 4 * GDM_SIMD_LANES) {
      float4 xi = norm_load(xRow, at, length, NORM_X_F32);
      float4 gates = norm_gates(norm_load(zRow, at, length, false));
      norm_store(outRow, at, length, norm_results(xi, gates, inverse, norm_weights(weight, at, length)));
    }
  }
}

// Names: gd_norm_<T>.
GDM_INSTANTIATE_T(gd_norm)
