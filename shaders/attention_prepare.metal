// Attention, first of three kernels: queries are prepared, keys and values go into their pages.
//
//   query <- rotate((x r) w) scale     key <- rotate((x r) w)     r = rsqrt(mean x^2 + eps), where there is a norm
//   rotate: element i < rotary / 2 and element i + rotary / 2, (a, b) to (a cos - b sin, b cos + a sin)
//   (RMS norm: Zhang and Sennrich 2019; rotation: Su et al., "RoFormer", 2021, in halves as in Hugging Face)
//
// query [tokens, heads, dim] T; key, value [tokens, keyHeads, dim] T; strides in elements. queryNorm, keyNorm [dim], of
// the dtypes in params, 0 for none. angles [tokens, rotary] f32: cosines, then sines. places [tokens]: page keyHeads
// pageTokens + row. keyPages, valuePages [pages, keyHeads, pageTokens, dim] S. prepared [tokens, heads, dim] f32.
//
// Grid: (ceil(tokens (heads + keyHeads) / GDM_ATTENTION_PREPARE_ROWS)) threadgroups: one simdgroup per row, queries first.
// 1. Lanes load the row as in rows.h and sum its squares.   2. The normalised row goes to threadgroup memory.
// 3. Each lane turns and writes elements lane, lane + 32, ....
// The order of a row's sum is that of rows.h for any key dim (G = 64). No function constants.
#include "rows.h"

// Element i of a normalised row after its rotation.
METAL_FUNC float turned(threadgroup const float* row, device const float* angles, uint i, uint rotary) {
  if (i >= rotary) return row[i];
  uint half_ = rotary / 2;
  uint pair = i < half_ ? i : i - half_;
  float a = row[pair];
  float b = row[pair + half_];
  float c = angles[pair];
  float s = angles[pair + half_];
  return i < half_ ? fma(-b, s, a * c) : fma(a, s, b * c);
}

template <typename T, typename S>
[[max_total_threads_per_threadgroup(GDM_ATTENTION_PREPARE_ROWS * GDM_SIMD_LANES)]]
kernel void gd_attention_prepare(device const T* query [[buffer(0)]],
                                 device const T* key [[buffer(1)]],
                                 device const T* value [[buffer(2)]],
                                 device const ushort* queryNorm [[buffer(3)]],
                                 device const ushort* keyNorm [[buffer(4)]],
                                 device const float* angles [[buffer(5)]],
                                 device const uint* places [[buffer(6)]],
                                 device S* keyPages [[buffer(7)]],
                                 device S* valuePages [[buffer(8)]],
                                 device float* prepared [[buffer(9)]],
                                 constant GDMAttentionPrepare& params [[buffer(10)]],
                                 uint group [[threadgroup_position_in_grid]],
                                 uint index [[thread_index_in_threadgroup]]) {
  threadgroup float rows[GDM_ATTENTION_PREPARE_ROWS * GDM_MAX_DIM];
  uint lane = index % GDM_SIMD_LANES;
  uint simdgroup = index / GDM_SIMD_LANES;
  uint number = group * GDM_ATTENTION_PREPARE_ROWS + simdgroup;
  uint queries = params.tokens * params.heads;
  if (number >= queries + params.tokens * params.keyHeads) return;  // whole simdgroups
  bool isQuery = number < queries;
  uint heads = isQuery ? params.heads : params.keyHeads;
  uint own = isQuery ? number : number - queries;
  uint token = own / heads;
  uint head = own - token * heads;
  uint dim = params.dim;
  device const T* x = isQuery
      ? query + (ulong(token) * params.queryTokenStride + ulong(head) * params.queryHeadStride)
      : key + (ulong(token) * params.keyTokenStride + ulong(head) * params.keyHeadStride);

  Row<GDM_SIMD_LANES, 64> row;
  row_load<T>(row, x, lane, dim);
  uint weightDType = isQuery ? params.queryNormDType : params.keyNormDType;
  device const ushort* weight = isQuery ? queryNorm : keyNorm;
  float inverse = 1.0f;
  if (weightDType != 0) inverse = gd_rsqrt(precise::divide(row_dot(row, row), float(dim)) + params.epsilon);
  threadgroup float* mine = rows + simdgroup * GDM_MAX_DIM;
  GDM_UNROLL for (uint part = 0; part < 2; ++part) {
    GDM_UNROLL for (uint e = 0; e < 4; ++e) {
      uint i = row_column<GDM_SIMD_LANES>(lane, part) + e;
      if (i < dim) {
        float u = row.part[part][e];
        if (weightDType != 0) {
          float w = read_any(weight, i, weightDType);
          u = (u * inverse) * (params.plusOne != 0 ? 1.0f + w : w);
        }
        mine[i] = u;
      }
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);

  device const float* turns = angles + ulong(token) * params.rotary;
  if (isQuery) {
    device float* to = prepared + ulong(own) * dim;
    for (uint i = lane; i < dim; i += GDM_SIMD_LANES) to[i] = turned(mine, turns, i, params.rotary) * params.scale;
    return;
  }
  ulong to = (ulong(places[token]) + ulong(head) * params.pageTokens) * dim;
  device const T* v = value + (ulong(token) * params.valueTokenStride + ulong(head) * params.valueHeadStride);
  for (uint i = lane; i < dim; i += GDM_SIMD_LANES) {
    keyPages[to + i] = S(turned(mine, turns, i, params.rotary));
    valuePages[to + i] = S(float(v[i]));
  }
}

// Names: gd_attention_prepare_<T>_<S>.
GDM_INSTANTIATE_TS(gd_attention_prepare)
