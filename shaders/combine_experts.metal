// The outputs of a token's experts as one row, in float32 and rounded once:
//
//   out = ((sum over ranks j, in order, of weights[j] experts[j]) + sigmoid(gate) shared) + residual
//
// each term by fma, from 0; without a gate its factor is 1, and absent terms are left out.
//
// experts [tokens, ranks, length], shared and residual [tokens, length], gate [tokens, 1], out [tokens, length]: T, or f32
// if params.wide, or OUT_F32 for out, says so; strides in elements. weights [tokens, ranks]. If out is the residual
// itself, that argument is not bound and its elements are read from out: arguments must not overlap.
//
// Grid: (tokens, ceil(length / (4 GDM_COMBINE_THREADS))) threadgroups of GDM_COMBINE_THREADS: a thread takes four elements,
// and reads those of COMBINE_AHEAD experts before it uses the first.
// Function constants: OUT_F32, ALIGNED_ROWS (lengths are multiples of 4 and every row begins at a multiple of four elements'
// bytes).
#include "storage.h"

enum : uint { COMBINE_AHEAD = 4 };

template <typename T>
[[max_total_threads_per_threadgroup(GDM_COMBINE_THREADS)]]
kernel void gd_combine_experts(device const T* experts [[buffer(0)]],
                               device const float* weights [[buffer(1)]],
                               device const T* shared [[buffer(2)]],
                               device const T* gate [[buffer(3)]],
                               device const T* residual [[buffer(4)]],
                               device T* out [[buffer(5)]],
                               constant GDMCombine& params [[buffer(6)]],
                               uint2 group [[threadgroup_position_in_grid]],
                               uint index [[thread_index_in_threadgroup]]) {
  uint token = group.x;
  uint at = 4 * (group.y * GDM_COMBINE_THREADS + index);
  if (at >= params.length) return;
  device T* outRow = wide_row(out, ulong(token) * params.outTokenStride, OUT_F32);
  device const float* weightRow = weights + ulong(token) * params.ranks;
  bool wide = (params.wide & GDM_COMBINE_EXPERTS) != 0;
  float4 sum = float4(0.0f);
  for (uint first = 0; first < params.ranks; first += COMBINE_AHEAD) {
    float4 v[COMBINE_AHEAD];
    float w[COMBINE_AHEAD];
    GDM_UNROLL for (uint j = 0; j < COMBINE_AHEAD; ++j) {
      uint rank = min(first + j, params.ranks - 1);
      ulong place = ulong(token) * params.expertsTokenStride + ulong(rank) * params.expertsRankStride;
      v[j] = read_four(wide_row(experts, place, wide), at, params.length, wide);
      w[j] = weightRow[rank];
    }
    GDM_UNROLL for (uint j = 0; j < COMBINE_AHEAD; ++j) {
      if (first + j < params.ranks) sum = fma(float4(w[j]), v[j], sum);
    }
  }
  if (params.hasShared != 0) {
    wide = (params.wide & GDM_COMBINE_SHARED) != 0;
    float factor = 1.0f;
    if (params.hasGate != 0) {
      factor = gd_sigmoid(read_wide(gate, ulong(token) * params.gateTokenStride, (params.wide & GDM_COMBINE_GATE) != 0));
    }
    float4 v = read_four(wide_row(shared, ulong(token) * params.sharedTokenStride, wide), at, params.length, wide);
    sum = fma(float4(factor), v, sum);
  }
  if (params.residual == GDM_RESIDUAL_OUT) {
    sum += read_four((device const T*)outRow, at, params.length, OUT_F32);
  } else if (params.residual != GDM_RESIDUAL_NONE) {
    wide = (params.wide & GDM_COMBINE_RESIDUAL) != 0;
    sum += read_four(wide_row(residual, ulong(token) * params.residualTokenStride, wide), at, params.length, wide);
  }
  write_four(outRow, at, params.length, sum, OUT_F32);
}

// Names: gd_combine_experts_<T>.
GDM_INSTANTIATE_T(gd_combine_experts)
