// One decode token of each sequence through the mixer's core: convolution, gates, query/key norm, recurrence and gated
// norm, as one dispatch. The bits of gd_conv, gd_gates, gd_decode (out f32) and gd_norm in a chain.
//
// x [n, C] T, C = 2 Hk Dk + Hv Dv: query | key | value channels, head-major; convWeight [C, K], convBias [C].
// convState [slots, C, K - 1] T or f32 (CONV_STATE_F32), convStaged likewise; state [slots, Hv, Dv, Dk] S, staged
// likewise; both in place. gate [n, Hv] or [n, Hv, Dk], beta [n, Hv], aLog, dtBias: as in gates.metal.
// z [n, Hv, Dv] T; normWeight [Dv]; out [n, Hv, Dv] T or f32 (OUT_F32). readSlots, writeSlots [n], of both pools.
//
// Grid: (Hk, n) threadgroups of any multiple of 32 threads, at most 1024; the bits do not depend on it.
// A threadgroup owns a key head and every value head that it serves: it alone reads and writes their conv taps, so that
// the shifted taps need no second dispatch and no counter between threadgroups.
//
// 1. Convolve the key head's query and key channels, one thread a channel; round to T, as the unfused chain stores.
// 2. For each value head: (a) convolve its value channels and resolve its decays; barrier. (b) Each group of eight
//    lanes takes rows in turn: read the row, decay, update, write it, leave the output in threadgroup memory (f32).
//    (c) barrier; every simdgroup sums the squares of the head's outputs; each thread writes its share.
// Formulas: conv.h, gates.h, rows.h, norm.h. Function constants: all but NORM_X_F32, HAS_STORES and RECORD.
#include "conv.h"
#include "gates.h"
#include "norm.h"
#include "rows.h"

// One channel's token: output rounded to T, taps moved on in the write slot. A channel belongs to one thread.
template <typename T>
inline float step_conv(device const T* x, device const ushort* weight, device const ushort* bias, device T* state,
                       device const T* staged, int readSlot, int writeSlot, uint channels, uint channel) {
  ConvTaps taps;
  ConvWeights w;
  conv_read(taps, state, staged, readSlot, channels, channel);
  conv_weights(w, weight, bias, channel);
  float y = conv_token(taps, w, float(x[channel]));
  if (writeSlot >= 0) conv_write(state, taps, uint(writeSlot), channels, channel);
  return float(T(y));
}

template <typename T, typename S, uint N>
kernel void gd_step(device const T* x [[buffer(0)]],
                    device const ushort* convWeight [[buffer(1)]],
                    device const ushort* convBias [[buffer(2)]],
                    device T* convState [[buffer(3)]],
                    device const T* convStaged [[buffer(4)]],
                    device const ushort* gate [[buffer(5)]],
                    device const ushort* beta [[buffer(6)]],
                    device const ushort* aLog [[buffer(7)]],
                    device const ushort* dtBias [[buffer(8)]],
                    device S* state [[buffer(9)]],
                    device const S* staged [[buffer(10)]],
                    device const T* z [[buffer(11)]],
                    device const ushort* normWeight [[buffer(12)]],
                    device T* out [[buffer(13)]],
                    device const int* readSlots [[buffer(14)]],
                    device const int* writeSlots [[buffer(15)]],
                    constant GDMStep& params [[buffer(16)]],
                    uint2 group [[threadgroup_position_in_grid]],
                    uint2 threadCounts [[threads_per_threadgroup]],
                    uint index [[thread_index_in_threadgroup]]) {
  // Rows read four elements at a time are declared so, for their alignment.
  threadgroup float4 queryMemory[GDM_MAX_DIM / 4];
  threadgroup float4 keyMemory[GDM_MAX_DIM / 4];
  threadgroup float4 decayMemory[GDM_MAX_DIM / 4];
  threadgroup float valueRow[GDM_MAX_DIM];
  threadgroup float outRow[GDM_MAX_DIM];
  threadgroup float* queryRow = (threadgroup float*)queryMemory;
  threadgroup float* keyRow = (threadgroup float*)keyMemory;
  threadgroup float* decayRow = (threadgroup float*)decayMemory;

  uint threads = threadCounts.x;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint valueDim = params.valueDim;
  uint keyHead = group.x;
  uint token = group.y;
  uint keyChannels = keyHeads * keyDim;
  uint channels = 2 * keyChannels + valueHeads * valueDim;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  int readSlot = readSlots[token];
  int writeSlot = writeSlots[token];
  device const T* input = x + ulong(token) * params.xTokenStride;

  for (uint i = index; i < 2 * keyDim; i += threads) {
    bool isQuery = i < keyDim;
    uint d = isQuery ? i : i - keyDim;
    uint channel = (isQuery ? 0 : keyChannels) + keyHead * keyDim + d;
    float y = step_conv(input, convWeight, convBias, convState, convStaged, readSlot, writeSlot, channels, channel);
    if (isQuery) queryRow[d] = y;
    else keyRow[d] = y;
  }

  uint lane = index % GDM_ROW_LANES;
  uint rowsAtOnce = threads / GDM_ROW_LANES;
  uint ratio = valueHeads / keyHeads;
  for (uint r = 0; r < ratio; ++r) {
    uint valueHead = TILED_HEADS ? keyHead + r * keyHeads : keyHead * ratio + r;

    // (a) The previous head's readers of valueRow and decayRow are behind the barrier before (c).
    for (uint i = index; i < valueDim; i += threads) {
      uint channel = 2 * keyChannels + valueHead * valueDim + i;
      valueRow[i] =
          step_conv(input, convWeight, convBias, convState, convStaged, readSlot, writeSlot, channels, channel);
    }
    for (uint i = index; i < decayDim; i += threads) {
      ulong at = ulong(token) * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride + i;
      decayRow[i] = gate_read(gate, at, aLog, valueHead, dtBias, valueHead * decayDim + i, params.bound);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (b) Groups without a row in the last turn work on zeros, so that every lane takes part, and write nothing.
    Row<N> k;
    Row<N> q;
    row_load(k, keyRow, lane, keyDim);
    row_load(q, queryRow, lane, keyDim);
    row_normalise(k, keyDim, params.epsilon, 1.0f);
    row_normalise(q, keyDim, params.epsilon, params.scale);
    float b = beta_read(beta, ulong(token) * params.betaTokenStride + ulong(valueHead) * params.betaHeadStride);
    for (uint first = 0; first < valueDim; first += rowsAtOnce) {
      uint wanted = first + index / GDM_ROW_LANES;
      bool valid = wanted < valueDim;
      uint row = min(wanted, valueDim - 1);
      uint slotRow = valueHead * valueDim + row;
      Row<N> s;
      state_read(s, state, staged, valid ? readSlot : GDM_SLOT_NONE, valueHeads * valueDim, slotRow, lane, keyDim);
      if (GATE_PER_KEY) {
        Row<N> decay;
        row_load(decay, decayRow, lane, keyDim);
        row_scale(s, decay);
      } else {
        row_scale(s, decayRow[0]);
      }
      float delta = 0.0f;
      float o = row_step(s, k, q, valueRow[row], b, delta, lane, keyDim);
      if (valid && lane == 0) outRow[row] = o;
      if (valid && writeSlot >= 0) {
        state_write<S>(state, s, uint(writeSlot), valueHeads * valueDim, slotRow, lane, keyDim);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (c)
    ulong zAt = ulong(token) * params.zTokenStride + ulong(valueHead) * params.zHeadStride;
    ulong outAt = ulong(token) * params.outTokenStride + ulong(valueHead) * params.outHeadStride;
    float sum = 0.0f;
    for (uint i = index % GDM_SIMD_LANES; i < valueDim; i += GDM_SIMD_LANES) {
      float u = norm_operand(outRow[i], float(z[zAt + i]));
      sum = fma(u, u, sum);
    }
    float inverse = norm_inverse(sum, valueDim, params.normEpsilon);
    for (uint i = index; i < valueDim; i += threads) {
      float w = read_any(normWeight, i, NORM_WEIGHT_DTYPE);
      write_wide(out, outAt + i, norm_result(outRow[i], float(z[zAt + i]), inverse, w), OUT_F32);
    }
  }
}

// Names: gd_step_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_step_f32_f32_k64")]] kernel decltype(gd_step<float, float, 2>) gd_step<float, float, 2>;
template [[host_name("gd_step_f32_f16_k64")]] kernel decltype(gd_step<float, half, 2>) gd_step<float, half, 2>;
template [[host_name("gd_step_f32_bf16_k64")]] kernel decltype(gd_step<float, bfloat, 2>) gd_step<float, bfloat, 2>;
template [[host_name("gd_step_f16_f32_k64")]] kernel decltype(gd_step<half, float, 2>) gd_step<half, float, 2>;
template [[host_name("gd_step_f16_f16_k64")]] kernel decltype(gd_step<half, half, 2>) gd_step<half, half, 2>;
template [[host_name("gd_step_f16_bf16_k64")]] kernel decltype(gd_step<half, bfloat, 2>) gd_step<half, bfloat, 2>;
template [[host_name("gd_step_bf16_f32_k64")]] kernel decltype(gd_step<bfloat, float, 2>) gd_step<bfloat, float, 2>;
template [[host_name("gd_step_bf16_f16_k64")]] kernel decltype(gd_step<bfloat, half, 2>) gd_step<bfloat, half, 2>;
template [[host_name("gd_step_bf16_bf16_k64")]] kernel decltype(gd_step<bfloat, bfloat, 2>) gd_step<bfloat, bfloat, 2>;
template [[host_name("gd_step_f32_f32_k128")]] kernel decltype(gd_step<float, float, 4>) gd_step<float, float, 4>;
template [[host_name("gd_step_f32_f16_k128")]] kernel decltype(gd_step<float, half, 4>) gd_step<float, half, 4>;
template [[host_name("gd_step_f32_bf16_k128")]] kernel decltype(gd_step<float, bfloat, 4>) gd_step<float, bfloat, 4>;
template [[host_name("gd_step_f16_f32_k128")]] kernel decltype(gd_step<half, float, 4>) gd_step<half, float, 4>;
template [[host_name("gd_step_f16_f16_k128")]] kernel decltype(gd_step<half, half, 4>) gd_step<half, half, 4>;
template [[host_name("gd_step_f16_bf16_k128")]] kernel decltype(gd_step<half, bfloat, 4>) gd_step<half, bfloat, 4>;
template [[host_name("gd_step_bf16_f32_k128")]] kernel decltype(gd_step<bfloat, float, 4>) gd_step<bfloat, float, 4>;
template [[host_name("gd_step_bf16_f16_k128")]] kernel decltype(gd_step<bfloat, half, 4>) gd_step<bfloat, half, 4>;
template [[host_name("gd_step_bf16_bf16_k128")]] kernel decltype(gd_step<bfloat, bfloat, 4>) gd_step<bfloat, bfloat, 4>;
template [[host_name("gd_step_f32_f32_kany")]] kernel decltype(gd_step<float, float, 8>) gd_step<float, float, 8>;
template [[host_name("gd_step_f32_f16_kany")]] kernel decltype(gd_step<float, half, 8>) gd_step<float, half, 8>;
template [[host_name("gd_step_f32_bf16_kany")]] kernel decltype(gd_step<float, bfloat, 8>) gd_step<float, bfloat, 8>;
template [[host_name("gd_step_f16_f32_kany")]] kernel decltype(gd_step<half, float, 8>) gd_step<half, float, 8>;
template [[host_name("gd_step_f16_f16_kany")]] kernel decltype(gd_step<half, half, 8>) gd_step<half, half, 8>;
template [[host_name("gd_step_f16_bf16_kany")]] kernel decltype(gd_step<half, bfloat, 8>) gd_step<half, bfloat, 8>;
template [[host_name("gd_step_bf16_f32_kany")]] kernel decltype(gd_step<bfloat, float, 8>) gd_step<bfloat, float, 8>;
template [[host_name("gd_step_bf16_f16_kany")]] kernel decltype(gd_step<bfloat, half, 8>) gd_step<bfloat, half, 8>;
template [[host_name("gd_step_bf16_bf16_kany")]] kernel decltype(gd_step<bfloat, bfloat, 8>) gd_step<bfloat, bfloat, 8>;
