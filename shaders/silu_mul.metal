// SiLU of one tensor times another, in float32 and rounded once: out = silu(gate) up.
//
// up [tokens, heads, length] T; gate and out likewise, T or f32; token and head strides in elements, any length. Where
// out is gate or up itself, that argument is not bound and its elements are read from out: arguments may not overlap.
//
// Grid: (rows, ceil(length / (GDM_ADD_PART GDM_COPY_THREADS))) threadgroups of GDM_COPY_THREADS; each thread takes
// GDM_ADD_PART elements, GDM_COPY_THREADS apart. Function constants: OUT_F32.
#include "storage.h"

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
  for (uint part = 0; part < GDM_ADD_PART; ++part) {
    uint i = (group.y * GDM_ADD_PART + part) * GDM_COPY_THREADS + index;
    if (i >= params.length) return;
    float g = params.replacesA != 0 ? read_wide((device const T*)out, outAt + i, OUT_F32)
                                    : read_wide(gate, gateAt + i, params.aF32 != 0);
    float u = params.replacesB != 0 ? read_wide((device const T*)out, outAt + i, OUT_F32) : float(up[upAt + i]);
    write_wide(out, outAt + i, gd_silu(g) * u, OUT_F32);
  }
}

// Names: gd_silu_mul_<T>.
GDM_INSTANTIATE_T(gd_silu_mul)
