// Chunked gated delta rule, first half: the two 16 x 16 matrices of every chunk and value head, all in parallel.
//
// query, key [tokens, Hk, Dk] T; gate (decay) [tokens, Hv] or [tokens, Hv, Dk] f32; beta [tokens, Hv] f32; strides as
// in recurrence_decode.metal. chunks [count]: rows of each chunk, 1..16. scratch [count, Hv, 2, 16, 16] f32, out.
//
// With D(i, j) the product of the decays after token j up to token i (per key dimension it lies inside the dot):
//   A(i, j) = beta_i k_i . (D(i, j) k_j), j < i        scratch 0 = (I + A)^-1 diag(beta)
//   P(i, j) = q_i . (D(i, j) k_j), j <= i              scratch 1 = P
// (Yang et al. 2024, section 3.3, in the form that needs no W: Vn = (I + A)^-1 beta (V - decayed K S).)
//
// D is a running product over at most 16 decays, which is exp(G_i - G_j) without the logarithm: never a ratio, and a
// decay of exactly 0 stays exactly 0 (its log would give -inf - -inf). It also serves decays per key dimension.
//
// Grid: (Hv, chunks) threadgroups of GDM_CHUNK_THREADS: 16 row groups, group j owning token j's key (rows.h).
// Threadgroup memory, in floats: tile [16, Dk] | A [16, 16] | P [16, 16], passed by the host.
//
// 1. Normalise key j into the tile and keep it in registers.   2. For i = 0 .. 15: carry key j on to token i by its
//    decay, dot with key i: -A(i, j).   3. The same with the queries in the tile: P(i, j).
// 4. Simdgroup 0 inverts I + A: each 8 x 8 diagonal block by its Neumann product (I + N)(I + N^2)(I + N^4), N = -A,
//    which is exact in eight terms; the lower left block by T21 = T22 N21 T11. (A 16 x 16 or larger Neumann product
//    cancels badly where keys repeat; blocks do not.)
// 5. Write both matrices. Tokens past the chunk's end are zero rows: A and P zero, the inverse the identity.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM.
#include "states.h"

// (I - N)^-1 for a strictly lower triangular 8 x 8 block N of a matrix of 16 columns.
METAL_FUNC void chunk_leaf(thread simdgroup_float8x8& inverse, threadgroup const float* block) {
  simdgroup_float8x8 one = simdgroup_float8x8(1.0f);
  simdgroup_float8x8 n;
  simdgroup_float8x8 square;
  simdgroup_float8x8 first;
  simdgroup_float8x8 second;
  simdgroup_float8x8 fourth;
  simdgroup_float8x8 partial;
  simdgroup_load(n, block, GDM_CHUNK, 0, false);
  simdgroup_multiply_accumulate(first, n, one, one);
  simdgroup_multiply_accumulate(second, n, n, one);
  simdgroup_multiply(square, n, n);
  simdgroup_multiply_accumulate(fourth, square, square, one);
  simdgroup_multiply(partial, first, second);
  simdgroup_multiply(inverse, partial, fourth);
}

// Stages row `group` of a chunk, normalised; zeros past the chunk's end, even if the norm of the row is not finite.
template <typename T, uint G>
METAL_FUNC void chunk_stage(thread Row<GDM_CHUNK_LANES, G>& row, threadgroup float* tile, device const T* source, bool present,
                        float epsilon, float scale, uint group, uint lane, uint keyDim) {
  row_load<T>(row, source, lane, keyDim);
  row_normalise(row, keyDim, epsilon, scale);
  if (!present) row_zero(row);
  row_store(tile + group * keyDim, row, lane, keyDim);
}

template <typename T, uint G>
[[max_total_threads_per_threadgroup(GDM_CHUNK_THREADS)]]
kernel void gd_chunk_prepare(device const T* query [[buffer(0)]],
                             device const T* key [[buffer(1)]],
                             device const float* gate [[buffer(2)]],
                             device const float* beta [[buffer(3)]],
                             device const GDMChunk* chunks [[buffer(4)]],
                             device float* scratch [[buffer(5)]],
                             constant GDMRecurrence& params [[buffer(6)]],
                             threadgroup float* memory [[threadgroup(0)]],
                             uint2 group [[threadgroup_position_in_grid]],
                             uint index [[thread_index_in_threadgroup]]) {
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueHead = group.x;
  uint keyHead = key_head_of(valueHead, params.keyHeads, params.valueHeads);
  threadgroup float* tile = memory;
  threadgroup float* negA = tile + GDM_CHUNK * keyDim;
  threadgroup float* dots = negA + GDM_CHUNK * GDM_CHUNK;

  uint lane = index % GDM_CHUNK_LANES;
  uint own = index / GDM_CHUNK_LANES;
  uint count = uint(chunks[group.y].count);
  ulong base = ulong(chunks[group.y].firstToken);
  ulong token = base + min(own, count - 1);
  ulong gateBase = base * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
  ulong betaBase = base * params.betaTokenStride + ulong(valueHead) * params.betaHeadStride;
  device const T* keyRow = key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride);
  device const T* queryRow = query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride);

  Row<GDM_CHUNK_LANES, G> ownKey;
  chunk_stage(ownKey, tile, keyRow, own < count, params.epsilon, 1.0f, own, lane, keyDim);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint pass = 0; pass < 2; ++pass) {
    if (pass == 1) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      Row<GDM_CHUNK_LANES, G> ownQuery;
      chunk_stage(ownQuery, tile, queryRow, own < count, params.epsilon, params.scale, own, lane, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    Row<GDM_CHUNK_LANES, G> carried = ownKey;
    for (uint i = 0; i < GDM_CHUNK; ++i) {
      if (i > own && i < count) {
        ulong at = gateBase + ulong(i) * params.gateTokenStride;
        if (GATE_PER_KEY) {
          Row<GDM_CHUNK_LANES, G> decay;
          row_load<float>(decay, gate + at, lane, keyDim);
          row_scale(carried, decay);
        } else {
          row_scale(carried, gate[at]);
        }
      }
      Row<GDM_CHUNK_LANES, G> other;
      row_load(other, tile + i * keyDim, lane, keyDim);
      float product = row_dot(carried, other);
      if (lane == 0 && pass == 0) {
        float b = i < count ? beta[betaBase + ulong(i) * params.betaTokenStride] : 0.0f;
        negA[i * GDM_CHUNK + own] = i > own ? -(b * product) : 0.0f;
      }
      if (lane == 0 && pass == 1) dots[i * GDM_CHUNK + own] = i >= own ? product : 0.0f;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  if (index < GDM_SIMD_LANES) {
    simdgroup_float8x8 upper;
    simdgroup_float8x8 lower;
    simdgroup_float8x8 corner;
    simdgroup_float8x8 partial;
    chunk_leaf(upper, negA);
    chunk_leaf(lower, negA + 8 * GDM_CHUNK + 8);
    simdgroup_load(corner, negA + 8 * GDM_CHUNK, GDM_CHUNK, 0, false);
    simdgroup_multiply(partial, lower, corner);
    simdgroup_multiply(corner, partial, upper);
    // The matrix is in registers: its place takes the inverse, whose upper right block is the zeros already there.
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_store(upper, negA, GDM_CHUNK, 0, false);
    simdgroup_store(corner, negA + 8 * GDM_CHUNK, GDM_CHUNK, 0, false);
    simdgroup_store(lower, negA + 8 * GDM_CHUNK + 8, GDM_CHUNK, 0, false);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  ulong at = (ulong(group.y) * params.valueHeads + valueHead) * GDM_CHUNK_SCRATCH;
  for (uint i = index; i < GDM_CHUNK * GDM_CHUNK; i += GDM_CHUNK_THREADS) {
    uint column = i % GDM_CHUNK;
    float b = column < count ? beta[betaBase + ulong(column) * params.betaTokenStride] : 0.0f;
    scratch[at + i] = negA[i] * b;
    scratch[at + GDM_CHUNK * GDM_CHUNK + i] = dots[i];
  }
}

// Names: gd_chunk_prepare_<T>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TK(gd_chunk_prepare)
