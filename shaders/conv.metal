// Causal depthwise convolution with its state, for prefill and decode alike: one thread a channel and token tile.
//
// x, out [tokens, C] T (out f32 with OUT_F32), token strides in elements, channels contiguous, C any number.
// weight [C, K], bias [C]: any float dtype (CONV_WEIGHT_DTYPE, CONV_BIAS_DTYPE), read as f32.
// state [slots, C, K - 1] T or f32 (CONV_STATE_F32), oldest first, in place; staged likewise: copies of slots that one
// sequence reads and another writes. cuSeqlens [n + 1]; readSlots, writeSlots [n] (GDM_SLOT_*).
// HAS_STORES: extra stores of the state, as in recurrence_decode.metal; snapshots [entries, C, K - 1].
//
// gd_conv. Grid: (ceil(C / GDM_CONV_THREADS), tiles, n) threadgroups of GDM_CONV_THREADS, tiles the number of
// GDM_CONV_TILE-token tiles of the longest sequence, at least 1.
// 1. Take the K - 1 columns before the tile: from the state in tile 0, else from x.
// 2. For each token of the tile: one output, rounded once at its store.
// 3. Tile 0 alone writes states: it alone has read the old one, and whatever else a new state holds is in x.
//
// gd_conv_shift. Grid: (ceil(C / GDM_CONV_THREADS), n). Moves each sequence's state on by counts[s] of its tokens and
// computes no output: the commit of a verified draft whose inputs x were kept.
//
// Function constants: CONV_WIDTH, CONV_BIAS, CONV_SILU, CONV_STATE_F32, CONV_WEIGHT_DTYPE, CONV_BIAS_DTYPE, OUT_F32,
// HAS_STORES; gd_conv_shift: CONV_WIDTH, CONV_STATE_F32.
#include "conv.h"

template <typename T>
[[max_total_threads_per_threadgroup(GDM_CONV_THREADS)]]
kernel void gd_conv(device const T* x [[buffer(0)]],
                    device const ushort* weight [[buffer(1)]],
                    device const ushort* bias [[buffer(2)]],
                    device T* state [[buffer(3)]],
                    device const T* staged [[buffer(4)]],
                    device T* out [[buffer(5)]],
                    device const int* cuSeqlens [[buffer(6)]],
                    device const int* readSlots [[buffer(7)]],
                    device const int* writeSlots [[buffer(8)]],
                    device const uint* storeOffsets [[buffer(9)]],
                    device const GDMStore* stores [[buffer(10)]],
                    device T* snapshots [[buffer(11)]],
                    constant GDMConv& params [[buffer(12)]],
                    uint3 group [[threadgroup_position_in_grid]],
                    uint index [[thread_index_in_threadgroup]]) {
  uint channel = group.x * GDM_CONV_THREADS + index;
  uint sequence = group.z;
  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  int first = int(group.y) * GDM_CONV_TILE;
  if (channel >= params.channels || (group.y > 0 && first >= count)) return;

  device const T* input = x + (ulong(begin) * params.xTokenStride + channel);
  ConvTaps old;
  ConvTaps taps;
  if (group.y == 0) {
    conv_read(old, state, staged, readSlots[sequence], params.channels, channel);
    taps = old;
  } else {
    // GDM_CONV_TILE >= K - 1, so that the state is not needed beyond tile 0 and `old` is only a placeholder.
    for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) old.column[j] = 0.0f;
    conv_columns(taps, old, input, params.xTokenStride, first);
  }

  ConvWeights w;
  conv_weights(w, weight, bias, channel);
  int end = count - first < GDM_CONV_TILE ? count : first + GDM_CONV_TILE;
  for (int t = first; t < end; ++t) {
    float y = conv_token(taps, w, float(input[ulong(t) * params.xTokenStride]));
    write_wide(out, ulong(begin + t) * params.outTokenStride + channel, y, OUT_F32);
  }

  if (group.y > 0) return;
  if (HAS_STORES) {
    for (uint i = storeOffsets[sequence]; i < storeOffsets[sequence + 1]; ++i) {
      conv_columns(taps, old, input, params.xTokenStride, stores[i].tokens);
      int slot = stores[i].slot;
      if (slot >= 0) conv_write(state, taps, uint(slot), params.channels, channel);
      else conv_write(snapshots, taps, uint(-1 - slot), params.channels, channel);
    }
  }
  int slot = writeSlots[sequence];
  if (slot >= 0) {
    conv_columns(taps, old, input, params.xTokenStride, count);
    conv_write(state, taps, uint(slot), params.channels, channel);
  }
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_CONV_THREADS)]]
kernel void gd_conv_shift(device const T* x [[buffer(0)]],
                          device T* state [[buffer(1)]],
                          device const T* staged [[buffer(2)]],
                          device const int* cuSeqlens [[buffer(3)]],
                          device const int* counts [[buffer(4)]],
                          device const int* readSlots [[buffer(5)]],
                          device const int* writeSlots [[buffer(6)]],
                          constant GDMConv& params [[buffer(7)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint index [[thread_index_in_threadgroup]]) {
  uint channel = group.x * GDM_CONV_THREADS + index;
  uint sequence = group.y;
  int slot = writeSlots[sequence];
  if (channel >= params.channels || slot < 0) return;
  device const T* input = x + (ulong(cuSeqlens[sequence]) * params.xTokenStride + channel);
  ConvTaps old;
  ConvTaps taps;
  conv_read(old, state, staged, readSlots[sequence], params.channels, channel);
  conv_columns(taps, old, input, params.xTokenStride, counts[sequence]);
  conv_write(state, taps, uint(slot), params.channels, channel);
}

// Names: gd_conv_<T>, gd_conv_shift_<T>.
template [[host_name("gd_conv_f32")]] kernel decltype(gd_conv<float>) gd_conv<float>;
template [[host_name("gd_conv_f16")]] kernel decltype(gd_conv<half>) gd_conv<half>;
template [[host_name("gd_conv_bf16")]] kernel decltype(gd_conv<bfloat>) gd_conv<bfloat>;
template [[host_name("gd_conv_shift_f32")]] kernel decltype(gd_conv_shift<float>) gd_conv_shift<float>;
template [[host_name("gd_conv_shift_f16")]] kernel decltype(gd_conv_shift<half>) gd_conv_shift<half>;
template [[host_name("gd_conv_shift_bf16")]] kernel decltype(gd_conv_shift<bfloat>) gd_conv_shift<bfloat>;
