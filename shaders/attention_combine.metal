// Attention, last of three kernels: a row's spans become its output.
//
//   M' = max(M, m); L <- L exp(M - M') + l exp(m - M'); V <- V exp(M - M') + v exp(m - M'); M <- M'
//   out = V / L (sigmoid(gate))
// with M, L, V those of the spans before, and a row's first span taken as it is. Where all is -inf, exponents are taken
// from 0.
//
// partial, sums and tasks as attention.metal leaves them. gate, out [tokens, heads, dim] T, strides in elements; out T or
// f32 (OUT_F32).
//
// Grid: (tasks, keyHeads) threadgroups of GDM_ATTENTION_THREADS: a simdgroup 128 elements of a row at a time, four a lane,
// and GDM_ATTENTION_AHEAD spans read before the first of them is used.
// Function constants: OUT_F32.
#include "storage.h"

template <typename T>
[[max_total_threads_per_threadgroup(GDM_ATTENTION_THREADS)]]
kernel void gd_attention_combine(device const float* partial [[buffer(0)]],
                                 device const float* sums [[buffer(1)]],
                                 device const GDMAttentionTask* tasks [[buffer(2)]],
                                 device const T* gate [[buffer(3)]],
                                 device T* out [[buffer(4)]],
                                 constant GDMAttentionCombine& params [[buffer(5)]],
                                 uint2 place [[threadgroup_position_in_grid]],
                                 uint index [[thread_index_in_threadgroup]]) {
  constexpr uint R = GDM_ATTENTION_ROWS;
  uint lane = index % GDM_SIMD_LANES;
  uint keyHead = place.y;
  uint group = params.heads / params.keyHeads;
  uint dim = params.dim;
  GDMAttentionTask task = tasks[place.x];
  ulong base = (ulong(place.x) * params.keyHeads + keyHead) * params.spans * R;
  constexpr uint ahead = GDM_ATTENTION_AHEAD;
  uint parts = (dim + 4 * GDM_SIMD_LANES - 1) / (4 * GDM_SIMD_LANES);
  for (uint unit = index / GDM_SIMD_LANES; unit < uint(task.rows) * parts;
       unit += GDM_ATTENTION_THREADS / GDM_SIMD_LANES) {
    uint row = unit / parts;
    uint i = 4 * (lane + GDM_SIMD_LANES * (unit - row * parts));
    if (i >= dim) continue;
    uint number = uint(task.firstRow) + row;
    uint spans = (uint(task.past) + number / group + GDM_ATTENTION_SPAN) / GDM_ATTENTION_SPAN;
    ulong token = ulong(uint(task.firstToken) + number / group);
    ulong head = ulong(keyHead * group + number % group);
    float4 total = *(device const float4*)(partial + ((base + row) * dim + i));
    float most = sums[2 * (base + row)];
    float sum = sums[2 * (base + row) + 1];
    for (uint first = 1; first < spans; first += ahead) {
      float4 v[ahead];
      float m[ahead];
      float l[ahead];
      GDM_UNROLL for (uint j = 0; j < ahead; ++j) {
        ulong at = base + min(first + j, spans - 1) * R + row;
        v[j] = *(device const float4*)(partial + (at * dim + i));
        m[j] = sums[2 * at];
        l[j] = sums[2 * at + 1];
      }
      GDM_UNROLL for (uint j = 0; j < ahead; ++j) {
        if (first + j < spans) {
          float now = m[j] > most ? m[j] : most;
          float reference = now == -INFINITY ? 0.0f : now;
          float before = gd_exp_down(most - reference);
          float here = gd_exp_down(m[j] - reference);
          total = fma(total, float4(before), v[j] * here);
          sum = fma(sum, before, l[j] * here);
          most = now;
        }
      }
    }
    GDM_UNROLL for (uint e = 0; e < 4; ++e) {
      float x = precise::divide(total[e], sum);
      if (params.hasGate != 0) {
        x *= gd_sigmoid(float(gate[token * params.gateTokenStride + head * params.gateHeadStride + i + e]));
      }
      write_wide(out, token * params.outTokenStride + head * params.outHeadStride + i + e, x, OUT_F32);
    }
  }
}

// Names: gd_attention_combine_<T>.
GDM_INSTANTIATE_T(gd_attention_combine)
