// The gated RMS norm of one row, shared by norm.metal and step.metal; rms_norm.metal uses its sum as well.
//
//   norm then gate  weight x rsqrt(mean x^2 + eps) act(z)
//   gate then norm  weight u rsqrt(mean u^2 + eps), u = x act(z)          act: silu or sigmoid
// (RMS norm: Zhang and Sennrich 2019. The first order is Gated DeltaNet's output norm, the second Mamba-2's.)
//
// The sum of squares of a row is one simdgroup's: lane l adds elements 4 (l + 32 i) + {0, 1, 2, 3}, i = 0, 1, ..., in
// ascending order by fma, then lanes add by xor 1, 2, 4, 8, 16. The order depends on the row's length alone.
#ifndef GATED_DELTA_SHADERS_NORM_H
#define GATED_DELTA_SHADERS_NORM_H

#include "storage.h"

METAL_FUNC float norm_gate(float z) { return NORM_SIGMOID ? gd_sigmoid(z) : gd_silu(z); }

// The value whose norm is taken.
METAL_FUNC float norm_operand(float x, float gate) { return NORM_GATE_FIRST ? x * gate : x; }

// The first element of part i of this lane.
METAL_FUNC uint norm_element(uint lane, uint i) { return 4 * (lane + GDM_SIMD_LANES * i); }

METAL_FUNC float norm_squares(float sum, float4 u, uint at, uint length) {
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (ALIGNED_ROWS || at + j < length) sum = fma(u[j], u[j], sum);
  }
  return sum;
}

METAL_FUNC float4 norm_weights(device const ushort* weight, uint at, uint length) {
  if (ALIGNED_ROWS && NORM_WEIGHT_VECTORS && NORM_WEIGHT_DTYPE == GDM_F32) {
    return at < length ? *(device const float4*)((device const float*)weight + at) : float4(0.0f);
  }
  float4 v = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < length) v[j] = read_any(weight, at + j, NORM_WEIGHT_DTYPE);
  }
  return v;
}

// From a lane's sum of squares to 1 / rms of the row, in every lane. Every lane of the simdgroup must call it.
METAL_FUNC float norm_inverse(float sum, uint length, float epsilon) {
  sum += simd_shuffle_xor(sum, ushort(1));
  sum += simd_shuffle_xor(sum, ushort(2));
  sum += simd_shuffle_xor(sum, ushort(4));
  sum += simd_shuffle_xor(sum, ushort(8));
  sum += simd_shuffle_xor(sum, ushort(16));
  return gd_rsqrt(precise::divide(sum, float(length)) + epsilon);
}

// `gate` is norm_gate(z), which can be computed before the sum.
METAL_FUNC float norm_result(float x, float gate, float inverse, float weight) {
  float y = (norm_operand(x, gate) * inverse) * weight;
  return NORM_GATE_FIRST ? y : y * gate;
}

#endif
