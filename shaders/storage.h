// How values lie in memory. The activation dtype T and the state dtype S are template parameters of the kernels; the
// dtype of small parameter vectors and the f32 variant of an output are options, each read in one place here, so that
// kernels do not multiply.
#ifndef GATED_DELTA_SHADERS_STORAGE_H
#define GATED_DELTA_SHADERS_STORAGE_H

#include "options.h"
#include "numerics.h"

// Four neighbouring elements as stored, two of them, the conversion of both to float32, and of four from it. `bits`: four as
// whole registers, for loops that go on before they are used.
template <typename T> struct Vec4;
template <> struct Vec4<float> {
  typedef float4 type;
  typedef float2 pair;
  typedef float4 bits;
  static METAL_FUNC float4 widen(float4 v) { return v; }
  static METAL_FUNC float2 widen_pair(float2 v) { return v; }
  static METAL_FUNC float4 round(float4 v) { return v; }
};
template <> struct Vec4<half> {
  typedef half4 type;
  typedef half2 pair;
  typedef uint2 bits;
  static METAL_FUNC float4 widen(half4 v) { return float4(v); }
  static METAL_FUNC float2 widen_pair(half2 v) { return float2(v); }
  static METAL_FUNC half4 round(float4 v) { return half4(v); }
};
template <> struct Vec4<bfloat> {
  typedef bfloat4 type;
  typedef bfloat2 pair;
  typedef uint2 bits;
  // By their bits, two at a time: separate conversions would take one more operation for every second element.
  static METAL_FUNC float4 widen(bfloat4 v) {
    uint2 pairs = as_type<uint2>(v);
    return float4(as_type<float>(pairs.x << 16), as_type<float>(pairs.x & 0xffff0000u), as_type<float>(pairs.y << 16),
                  as_type<float>(pairs.y & 0xffff0000u));
  }
  static METAL_FUNC float2 widen_pair(bfloat2 v) {
    uint bits = as_type<uint>(v);
    return float2(as_type<float>(bits << 16), as_type<float>(bits & 0xffff0000u));
  }
  static METAL_FUNC bfloat4 round(float4 v) { return bfloat4(v); }
};

// Elements as bits, for values that are moved and not computed with. `value` widens without an operation on floats where
// it can: bfloat is the upper half of a float.
template <typename T> struct Bits;
template <> struct Bits<float> {
  typedef uint type;
  typedef uint4 type4;
  static METAL_FUNC float value(uint bits) { return as_type<float>(bits); }
};
template <> struct Bits<half> {
  typedef ushort type;
  typedef ushort4 type4;
  static METAL_FUNC float value(uint bits) { return float(as_type<half>(ushort(bits))); }
};
template <> struct Bits<bfloat> {
  typedef ushort type;
  typedef ushort4 type4;
  static METAL_FUNC float value(uint bits) { return as_type<float>(bits << 16); }
};

// Element i of a parameter vector (weights, biases, gates) of any float dtype. The pointer is in 16-bit units because
// that is the alignment all three have; float32 data is 4-byte aligned by the host.
METAL_FUNC float read_any(device const ushort* p, ulong i, uint dtype) {
  if (dtype == GDM_F32) return ((device const float*)p)[i];
  if (dtype == GDM_F16) return float(as_type<half>(p[i]));
  return as_type<float>(uint(p[i]) << 16);
}

// Element i of a tensor that holds T, or float32 if `wide`.
template <typename T> METAL_FUNC float read_wide(device const T* p, ulong i, bool wide) {
  if (wide) return ((device const float*)p)[i];
  return float(p[i]);
}

template <typename T> METAL_FUNC void write_wide(device T* p, ulong i, float value, bool wide) {
  if (wide) ((device float*)p)[i] = value;
  else p[i] = T(value);
}

// Where a row begins in a tensor that holds T, or float32 if `wide`.
template <typename T> METAL_FUNC device const T* wide_row(device const T* p, ulong at, bool wide) {
  return wide ? (device const T*)((device const float*)p + at) : p + at;
}
template <typename T> METAL_FUNC device T* wide_row(device T* p, ulong at, bool wide) {
  return wide ? (device T*)((device float*)p + at) : p + at;
}

// Elements at .. at + 3 of a row; those from `length` on are zeros, and not written. ALIGNED_ROWS: rows begin at
// multiples of four elements' bytes, and lengths are multiples of four.
template <typename T> METAL_FUNC float4 read_four(device const T* row, uint at, uint length, bool wide) {
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
template <typename T> METAL_FUNC void write_four(device T* row, uint at, uint length, float4 v, bool wide) {
  if (ALIGNED_ROWS) {
    if (at >= length) return;
    if (wide) *(device float4*)((device float*)row + at) = v;
    else *(device typename Vec4<T>::type*)(row + at) = Vec4<T>::round(v);
    return;
  }
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < length) write_wide(row, at + j, v[j], wide);
  }
}

#endif
