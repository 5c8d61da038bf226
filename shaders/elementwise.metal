// Elementwise ops: out = f(a, b) in float32, rounded once.
//
// b [tokens, heads, length] T; a and out likewise, T or f32; token and head strides in elements, any length. If out
// is a or b itself, that argument is not bound and its elements are read from out: arguments must not overlap.
//
// Grid: (rows, ceil(length / (4 GDM_ELEMENTWISE_PARTS GDM_COPY_THREADS))) threadgroups of GDM_COPY_THREADS; each thread
// takes GDM_ELEMENTWISE_PARTS times four neighbouring elements, and reads them all before it writes the first.
// ALIGNED_ROWS: lengths are multiples of 4 and every row of all three begins at a multiple of four elements' bytes.
// Function constants: OUT_F32, ALIGNED_ROWS.
#include "storage.h"

// The operations, on four elements.
struct Add {
  static METAL_FUNC float4 of(float4 a, float4 b) { return a + b; }
};
struct SiluMul {
  static METAL_FUNC float4 of(float4 gate, float4 up) {
    float4 y = float4(0.0f);
    GDM_UNROLL for (uint j = 0; j < 4; ++j) y[j] = gd_silu(gate[j]);
    return y * up;
  }
};

template <typename T, typename Operation>
[[max_total_threads_per_threadgroup(GDM_COPY_THREADS)]]
kernel void gd_elementwise(device const T* a [[buffer(0)]],
                           device const T* b [[buffer(1)]],
                           device T* out [[buffer(2)]],
                           constant GDMElementwise& params [[buffer(3)]],
                           uint3 group [[threadgroup_position_in_grid]],
                           uint index [[thread_index_in_threadgroup]]) {
  uint token = group.x / params.heads;
  uint head = group.x - token * params.heads;
  ulong aAt = ulong(token) * params.aTokenStride + ulong(head) * params.aHeadStride;
  ulong bAt = ulong(token) * params.bTokenStride + ulong(head) * params.bHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;
  device const T* aRow = params.replacesA != 0 ? wide_row((device const T*)out, outAt, OUT_F32)
                                               : wide_row(a, aAt, params.aF32 != 0);
  device const T* bRow = params.replacesB != 0 ? wide_row((device const T*)out, outAt, OUT_F32) : b + bAt;
  bool aWide = params.replacesA != 0 ? OUT_F32 : params.aF32 != 0;
  bool bWide = params.replacesB != 0 && OUT_F32;
  device T* outRow = wide_row(out, outAt, OUT_F32);
  uint first = 4 * (group.y * GDM_ELEMENTWISE_PARTS * GDM_COPY_THREADS + index);
  float4 x[GDM_ELEMENTWISE_PARTS];
  float4 y[GDM_ELEMENTWISE_PARTS];
  GDM_UNROLL for (uint i = 0; i < GDM_ELEMENTWISE_PARTS; ++i) {
    x[i] = read_four(aRow, first + 4 * i * GDM_COPY_THREADS, params.length, aWide);
    y[i] = read_four(bRow, first + 4 * i * GDM_COPY_THREADS, params.length, bWide);
  }
  GDM_UNROLL for (uint i = 0; i < GDM_ELEMENTWISE_PARTS; ++i) {
    write_four(outRow, first + 4 * i * GDM_COPY_THREADS, params.length, Operation::of(x[i], y[i]), OUT_F32);
  }
}

// Names: gd_<operation>_<T>.
#define GDM_ELEMENTWISE(name, Operation)                    \
  GDM_KERNEL(name "_f32", gd_elementwise, float, Operation) \
  GDM_KERNEL(name "_f16", gd_elementwise, half, Operation)  \
  GDM_KERNEL(name "_bf16", gd_elementwise, bfloat, Operation)
GDM_EACH_ELEMENTWISE(GDM_ELEMENTWISE)
