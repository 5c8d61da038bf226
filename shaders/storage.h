// How values lie in memory. The activation dtype T and the state dtype S are template parameters of the kernels; the
// dtype of small parameter vectors and the f32 variant of an output are options, read here through one place each, so
// that kernels do not multiply.
#ifndef GATED_DELTA_SHADERS_STORAGE_H
#define GATED_DELTA_SHADERS_STORAGE_H

#include "options.h"
#include "numerics.h"

// Four neighbouring elements as stored, and their conversion from and to float32.
template <typename T> struct Vec4;
template <> struct Vec4<float> {
  typedef float4 type;
  static float4 widen(float4 v) { return v; }
  static float4 round(float4 v) { return v; }
};
template <> struct Vec4<half> {
  typedef half4 type;
  static float4 widen(half4 v) { return float4(v); }
  static half4 round(float4 v) { return half4(v); }
};
template <> struct Vec4<bfloat> {
  typedef bfloat4 type;
  static float4 widen(bfloat4 v) { return float4(v); }
  static bfloat4 round(float4 v) { return bfloat4(v); }
};

// Element i of a parameter vector (weights, biases, gates) of any float dtype. The pointer is in 16-bit units because
// that is the alignment all three have; float32 data is 4-byte aligned by the host.
inline float read_any(device const ushort* p, ulong i, uint dtype) {
  if (dtype == GDM_F32) return ((device const float*)p)[i];
  if (dtype == GDM_F16) return float(as_type<half>(p[i]));
  return as_type<float>(uint(p[i]) << 16);
}

// Element i of a tensor that holds T or, where `wide`, float32.
template <typename T> inline float read_wide(device const T* p, ulong i, bool wide) {
  if (wide) return ((device const float*)p)[i];
  return float(p[i]);
}

template <typename T> inline void write_wide(device T* p, ulong i, float value, bool wide) {
  if (wide) ((device float*)p)[i] = value;
  else p[i] = T(value);
}

#endif
