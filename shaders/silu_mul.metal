// SiLU of one tensor times another, in float32 and rounded once: out = silu(gate) up.
//
// up [tokens, heads, length] T; gate and out likewise, T or f32; token and head strides in elements, any length. Where
// out is gate or up itself, that argument is not bound and its elements are read from out: arguments may not overlap.
//
// Grid: (rows, ceil(length / (4 GDM_ADD_PARTS GDM_COPY_THREADS))) threadgroups of GDM_COPY_THREADS; each thread takes
// GDM_ADD_PARTS times four neighbouring elements, and reads them all before it writes the first. ALIGNED_ROWS: lengths
// are multiples of 4 and every row of all three begins at a multiple of four elements' bytes. Function constants: OUT_F32,
// ALIGNED_ROWS.
#include "storage.h"

METAL_FUNC float4 silu_four(float4 x) {
  float4 y = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) y[j] = gd_silu(x[j]);
  return y;
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_COPY_THREADS)]]
kernel void gd_silu_mul(device const T* gate [[buffer(0)]],
                        device const T* up [[buffer(1)]],
                        device T* out [[buffer(2)]],
                        constant GDMAdd& params [[buffer(3)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint index [[thread_index_in_threadgroup]]) {
  uint token = group.x / params.heads;
  uint head = group.x - token * params.heads;
  ulong gateAt = ulong(token) * params.aTokenStride + ulong(head) * params.aHeadStride;
  ulong upAt = ulong(token) * params.bTokenStride + ulong(head) * params.bHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;
  device const T* aRow = params.replacesA != 0 ? wide_row((device const T*)out, outAt, OUT_F32)
                                               : wide_row(gate, gateAt, params.aF32 != 0);
  device const T* bRow = params.replacesB != 0 ? wide_row((device const T*)out, outAt, OUT_F32) : up + upAt;
  bool aWide = params.replacesA != 0 ? OUT_F32 : params.aF32 != 0;
  bool bWide = params.replacesB != 0 && OUT_F32;
  device T* outRow = wide_row(out, outAt, OUT_F32);
  uint first = 4 * (group.y * GDM_ADD_PARTS * GDM_COPY_THREADS + index);
  float4 x[GDM_ADD_PARTS];
  float4 y[GDM_ADD_PARTS];
  GDM_UNROLL for (uint i = 0; i < GDM_ADD_PARTS; ++i) {
    x[i] = read_four(aRow, first + 4 * i * GDM_COPY_THREADS, params.length, aWide);
    y[i] = read_four(bRow, first + 4 * i * GDM_COPY_THREADS, params.length, bWide);
  }
  GDM_UNROLL for (uint i = 0; i < GDM_ADD_PARTS; ++i) {
    write_four(outRow, first + 4 * i * GDM_COPY_THREADS, params.length, silu_four(x[i]) * y[i], OUT_F32);
  }
}

// Names: gd_silu_mul_<T>.
GDM_INSTANTIATE_T(gd_silu_mul)
