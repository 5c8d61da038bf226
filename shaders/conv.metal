// Causal depthwise convolution with its state, for prefill and decode: one thread for each channel and token tile.
//
// x, out [tokens, C] T (out f32 with OUT_F32), token strides in elements, channels contiguous, C any number.
// weight [C, K], bias [C]: any float dtype (CONV_WEIGHT_DTYPE, CONV_BIAS_DTYPE), read as f32.
// state [slots, C, K - 1] T or f32 (CONV_STATE_F32), oldest first, in place; staged likewise: copies of slots that one
// sequence reads and another writes. cuSeqlens [n + 1]; readSlots, writeSlots [n] (GDM_SLOT_*).
// HAS_STORES: extra stores of the state, as in recurrence_decode.metal; snapshots [entries, C, K - 1].
//
// gd_conv. Grid: (ceil(C / GDM_CONV_THREADS), tiles, n) threadgroups of GDM_CONV_THREADS, tiles the number of
// GDM_CONV_TILE-token tiles of the longest sequence, at least 1.
// 1. Ask for the tile's inputs, all of them before the first is used, and for the K - 1 columns before it: from the
//    state in tile 0, by way of threadgroup memory, where neighbouring threads read neighbouring memory; else from x.
// 2. For each token of the tile: one output, rounded once at its store.
// 3. Tile 0 alone writes states: it alone has read the old one, and the other columns of a new state are in x.
//
// CONV_UPDATE, one token of each sequence and K = 4: a thread has four channels of CONV_UPDATE sequences. Their columns,
// weights, inputs and outputs are whole vectors; channels are a multiple of 4 and every row of x and out begins at a multiple of four
// elements' bytes. Grid: (ceil(C / (4 GDM_CONV_THREADS)), 1, ceil(n / CONV_UPDATE)). The same bits. Two barriers keep the
// compiler from reordering reads: tables and weights, then what the tables point to, then uses.
//
// Threadgroup memory, which the host passes: [GDM_CONV_THREADS, GDM_CONV_MAX_TAPS] of 32 bits; CONV_UPDATE: none.
//
// gd_conv_shift. Grid: (ceil(C / GDM_CONV_THREADS), n). Moves each sequence's state on by counts[s] of its tokens and
// computes no output: the commit of a verified draft whose inputs x were kept.
//
// Function constants: CONV_WIDTH, CONV_BIAS, CONV_SILU, CONV_STATE_F32, CONV_WEIGHT_DTYPE, CONV_BIAS_DTYPE, OUT_F32,
// HAS_STORES, CONV_UPDATE; gd_conv_shift: CONV_WIDTH, CONV_STATE_F32.
#include "conv.h"

// The states of a threadgroup's channels, [GDM_CONV_THREADS, K - 1] neighbouring elements, to threadgroup memory.
template <typename T>
METAL_FUNC void conv_stage(threadgroup uint* memory, device const T* pool, device const T* staged, int slot,
                           uint channels, uint firstChannel, uint index) {
  uint width = CONV_WIDTH - 1;
  uint count = min(uint(GDM_CONV_THREADS), channels - firstChannel) * width;
  device const T* from = slot >= 0 ? pool : staged;
  ulong at = (ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * channels + firstChannel) * width;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    uint i = index + j * GDM_CONV_THREADS;
    if (i < count) memory[i] = slot == GDM_SLOT_NONE ? 0u : conv_bits(from, at + i);
  }
}

// The same way back.
template <typename T>
METAL_FUNC void conv_unstage(device T* pool, threadgroup const uint* memory, uint slot, uint channels,
                             uint firstChannel, uint index) {
  uint width = CONV_WIDTH - 1;
  uint count = min(uint(GDM_CONV_THREADS), channels - firstChannel) * width;
  ulong at = (ulong(slot) * channels + firstChannel) * width;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    uint i = index + j * GDM_CONV_THREADS;
    if (i < count) conv_set_bits(pool, at + i, memory[i]);
  }
}

METAL_FUNC void conv_take(thread ConvTaps& taps, threadgroup const uint* memory, uint index) {
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    taps.column[j] = j + 1 < CONV_WIDTH ? memory[index * (CONV_WIDTH - 1) + j] : 0u;
  }
}
METAL_FUNC void conv_put(threadgroup uint* memory, thread const ConvTaps& taps, uint index) {
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    if (j + 1 < CONV_WIDTH) memory[index * (CONV_WIDTH - 1) + j] = taps.column[j];
  }
}

// Four neighbouring columns of a state.
template <typename T> METAL_FUNC uint4 conv_bits4(device const T* p, ulong at) {
  if (CONV_STATE_F32) return *(device const uint4*)((device const uint*)p + at);
  return uint4(*(device const typename Bits<T>::type4*)(p + at));
}
template <typename T> METAL_FUNC void conv_set_bits4(device T* p, ulong at, uint4 bits) {
  typedef typename Bits<T>::type4 U4;
  if (CONV_STATE_F32) *(device uint4*)((device uint*)p + at) = bits;
  else *(device U4*)(p + at) = U4(bits);
}

// Elements at .. at + 3 of the weights.
METAL_FUNC float4 conv_weights4(device const ushort* weight, ulong at) {
  if (CONV_WEIGHT_DTYPE == GDM_F32) return *(device const float4*)((device const float*)weight + at);
  float4 v = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) v[j] = read_any(weight, at + j, CONV_WEIGHT_DTYPE);
  return v;
}

// A thread's reads of a sequence: the state of four channels, W taps each, and their inputs.
template <typename T, uint W> struct ConvRead {
  uint4 old[W];
  typename Vec4<T>::type in;
};

template <typename T, uint W>
METAL_FUNC void conv_ask(thread ConvRead<T, W>& read, device const T* x, device const T* state, device const T* staged, int slot,
                         uint channels, uint first) {
  device const T* from = slot >= 0 ? state : staged;
  ulong at = (ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * channels + first) * W;
  GDM_UNROLL for (uint i = 0; i < W; ++i) {
    read.old[i] = uint4(0u);
    if (slot != GDM_SLOT_NONE) read.old[i] = conv_bits4(from, at + 4 * i);
  }
  read.in = *(device const typename Vec4<T>::type*)(x + first);
}

// One token of channels first .. first + 3: outputs, and the state moved on.
template <typename T, uint W>
METAL_FUNC void conv_answer(thread const ConvRead<T, W>& read, thread const float4* w, float4 bias, device T* state, device T* out,
                            ulong outAt, int slot, uint channels, uint first) {
  float4 y = float4(0.0f);
  uint4 next[W];
  GDM_UNROLL for (uint c = 0; c < 4; ++c) {
    uint column = conv_column(T(read.in[c]));
    float sum = bias[c];
    GDM_UNROLL for (uint j = 0; j < W; ++j) {
      uint n = c * W + j;
      uint m = c * (W + 1) + j;
      sum = fma(w[m / 4][m % 4], conv_value<T>(read.old[n / 4][n % 4]), sum);
      next[n / 4][n % 4] = j + 1 < W ? read.old[(n + (j + 1 < W ? 1 : 0)) / 4][(n + 1) % 4] : column;
    }
    uint last = c * (W + 1) + W;
    y[c] = fma(w[last / 4][last % 4], conv_value<T>(column), sum);
  }
  if (slot >= 0) {
    ulong to = (ulong(slot) * channels + first) * W;
    GDM_UNROLL for (uint i = 0; i < W; ++i) conv_set_bits4(state, to + 4 * i, next[i]);
  }
  GDM_UNROLL for (uint c = 0; c < 4; ++c) y[c] = CONV_SILU ? gd_silu(y[c]) : y[c];
  if (OUT_F32) *(device float4*)((device float*)out + outAt + first) = y;
  else *(device typename Vec4<T>::type*)(out + outAt + first) = Vec4<T>::round(y);
}

// Four channels of N sequences from number `sequence` on. Threads without channels, and those for missing sequences, read the
// last ones and store nothing.
template <typename T, uint W, uint N>
METAL_FUNC void conv_update(device const T* x, device const ushort* weight, device const ushort* bias, device T* state,
                            device const T* staged, device T* out, device const int* cuSeqlens, device const int* readSlots,
                            device const int* writeSlots, constant GDMConv& params, uint sequence, uint first) {
  uint channels = params.channels;
  uint four = min(first, channels - 4);
  int row[N];
  int readSlot[N];
  int writeSlot[N];
  GDM_UNROLL for (uint s = 0; s < N; ++s) {
    uint number = min(sequence + s, params.sequences - 1);
    row[s] = cuSeqlens[number];
    readSlot[s] = readSlots[number];
    writeSlot[s] = writeSlots[number];
  }
  float4 w[W + 1];
  GDM_UNROLL for (uint i = 0; i < W + 1; ++i) w[i] = conv_weights4(weight, ulong(four) * (W + 1) + 4 * i);
  float4 sums = float4(0.0f);
  GDM_UNROLL for (uint c = 0; c < 4; ++c) {
    if (CONV_BIAS) sums[c] = read_any(bias, four + c, CONV_BIAS_DTYPE);
  }
  threadgroup_barrier(mem_flags::mem_device);
  ConvRead<T, W> read[N];
  GDM_UNROLL for (uint s = 0; s < N; ++s) {
    conv_ask(read[s], x + ulong(row[s]) * params.xTokenStride, (device const T*)state, staged, readSlot[s], channels, four);
  }
  threadgroup_barrier(mem_flags::mem_device);
  GDM_UNROLL for (uint s = 0; s < N; ++s) {
    if (first < channels && sequence + s < params.sequences) {
      conv_answer(read[s], w, sums, state, out, ulong(row[s]) * params.outTokenStride, writeSlot[s], channels, four);
    }
  }
}

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
                    threadgroup uint* memory [[threadgroup(0)]],
                    uint3 group [[threadgroup_position_in_grid]],
                    uint index [[thread_index_in_threadgroup]]) {
  if (CONV_UPDATE > 0) {
    uint four = 4 * (group.x * GDM_CONV_THREADS + index);
    if (CONV_UPDATE == 1) {
      conv_update<T, 3, 1>(x, weight, bias, state, staged, out, cuSeqlens, readSlots, writeSlots, params, group.z, four);
    } else {
      conv_update<T, 3, 2>(x, weight, bias, state, staged, out, cuSeqlens, readSlots, writeSlots, params, 2 * group.z, four);
    }
    return;
  }
  uint firstChannel = group.x * GDM_CONV_THREADS;
  uint channel = firstChannel + index;
  uint sequence = group.z;
  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  int first = int(group.y) * GDM_CONV_TILE;
  if (group.y > 0 && first >= count) return;  // whole threadgroups
  bool exists = channel < params.channels;
  uint safe = exists ? channel : params.channels - 1;
  device const T* input = x + (ulong(begin) * params.xTokenStride + safe);

  // A whole tile's inputs together; those of a shorter last one as they come.
  bool whole = first + GDM_CONV_TILE <= count;
  T in[GDM_CONV_TILE];
  if (whole) {
    device const T* from = input + ulong(first) * params.xTokenStride;
    GDM_UNROLL for (int t = 0; t < GDM_CONV_TILE; ++t) {
      in[t] = *from;
      from += params.xTokenStride;
    }
  }
  ConvWeights w;
  conv_weights(w, weight, bias, safe);
  ConvTaps old;
  ConvTaps taps;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) old.column[j] = 0u;
  if (group.y == 0) {
    conv_stage(memory, (device const T*)state, staged, readSlots[sequence], params.channels, firstChannel, index);
    // Device memory too: a store below may go to the slot that was read.
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    if (exists) conv_take(old, memory, index);
    taps = old;
  } else {
    // GDM_CONV_TILE >= K - 1, so that the state is not needed beyond tile 0 and `old` is only a placeholder.
    conv_columns(taps, old, input, params.xTokenStride, first);
  }

  if (whole) {
    // All of them before the first store: a condition for each would keep one token's sums from overlapping with the
    // next's.
    float y[GDM_CONV_TILE];
    GDM_UNROLL for (int t = 0; t < GDM_CONV_TILE; ++t) y[t] = conv_token(taps, w, in[t]);
    if (exists) {
      ulong at = ulong(begin + first) * params.outTokenStride + channel;
      GDM_UNROLL for (int t = 0; t < GDM_CONV_TILE; ++t) {
        write_wide(out, at, y[t], OUT_F32);
        at += params.outTokenStride;
      }
    }
  } else {
    for (int t = first; t < count; ++t) {
      float y = conv_token(taps, w, input[ulong(t) * params.xTokenStride]);
      if (exists) write_wide(out, ulong(begin + t) * params.outTokenStride + channel, y, OUT_F32);
    }
  }

  if (group.y > 0) return;
  if (HAS_STORES && exists) {
    for (uint i = storeOffsets[sequence]; i < storeOffsets[sequence + 1]; ++i) {
      ConvTaps kept;
      conv_columns(kept, old, input, params.xTokenStride, stores[i].tokens);
      int slot = stores[i].slot;
      if (slot >= 0) conv_write(state, kept, uint(slot), params.channels, channel);
      else conv_write(snapshots, kept, uint(-1 - slot), params.channels, channel);
    }
  }
  int slot = writeSlots[sequence];
  if (slot < 0) return;
  if (count > GDM_CONV_TILE) conv_columns(taps, old, input, params.xTokenStride, count);
  // Each thread has taken its own entries out of threadgroup memory, and puts the new ones in their place.
  if (exists) conv_put(memory, taps, index);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  conv_unstage(state, memory, uint(slot), params.channels, firstChannel, index);
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
  conv_read(old, (device const T*)state, staged, readSlots[sequence], params.channels, channel);
  conv_columns(taps, old, input, params.xTokenStride, counts[sequence]);
  conv_write(state, taps, uint(slot), params.channels, channel);
}

// Names: gd_conv_<T>, gd_conv_shift_<T>.
GDM_INSTANTIATE_T(gd_conv)
GDM_INSTANTIATE_T(gd_conv_shift)
