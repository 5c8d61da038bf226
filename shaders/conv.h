// Causal depthwise convolution, the parts that conv.metal and step.metal share: the state's layout and one output.
//
// state [slots, C, K - 1], oldest first, T or f32 (CONV_STATE_F32); weight [C, K]; bias [C]; any float dtype.
// y[t] = act(bias + sum over j of w[j] x[t - (K - 1) + j]), taps in ascending order by fma, columns before the
// sequence's first token coming from the state. (The short convolution of Mamba, Gu and Dao 2023, as Gated DeltaNet
// applies it to the joint query, key and value channels.)
#ifndef GATED_DELTA_SHADERS_CONV_H
#define GATED_DELTA_SHADERS_CONV_H

#include "storage.h"

// The K - 1 newest columns of one channel, oldest first; entries from K - 1 on are unused.
struct ConvTaps {
  float column[GDM_CONV_MAX_TAPS];
};

struct ConvWeights {
  float tap[GDM_CONV_MAX_TAPS + 1];
  float bias;
};

inline void conv_weights(thread ConvWeights& w, device const ushort* weight, device const ushort* bias, uint channel) {
  for (uint j = 0; j < CONV_WIDTH; ++j) w.tap[j] = read_any(weight, ulong(channel) * CONV_WIDTH + j, CONV_WEIGHT_DTYPE);
  w.bias = CONV_BIAS ? read_any(bias, channel, CONV_BIAS_DTYPE) : 0.0f;
}

// The state as the op found it: slot of the pool, of the staged copies, or zeros by store.
template <typename T>
inline void conv_read(thread ConvTaps& taps, device const T* pool, device const T* staged, int slot, uint channels,
                      uint channel) {
  uint width = CONV_WIDTH - 1;
  for (uint j = 0; j < width; ++j) {
    if (slot >= 0) {
      taps.column[j] = read_wide(pool, (ulong(slot) * channels + channel) * width + j, CONV_STATE_F32);
    } else if (slot == GDM_SLOT_NONE) {
      taps.column[j] = 0.0f;
    } else {
      ulong from = (ulong(GDM_SLOT_STAGED - slot) * channels + channel) * width + j;
      taps.column[j] = read_wide(staged, from, CONV_STATE_F32);
    }
  }
}

template <typename T>
inline void conv_write(device T* pool, thread const ConvTaps& taps, uint slot, uint channels, uint channel) {
  uint width = CONV_WIDTH - 1;
  for (uint j = 0; j < width; ++j) {
    write_wide(pool, (ulong(slot) * channels + channel) * width + j, taps.column[j], CONV_STATE_F32);
  }
}

// One output, activated but not yet rounded, and the taps moved on by `x`.
inline float conv_token(thread ConvTaps& taps, thread const ConvWeights& w, float x) {
  float sum = w.bias;
  for (uint j = 0; j + 1 < CONV_WIDTH; ++j) sum = fma(w.tap[j], taps.column[j], sum);
  sum = fma(w.tap[CONV_WIDTH - 1], x, sum);
  for (uint j = 0; j + 2 < CONV_WIDTH; ++j) taps.column[j] = taps.column[j + 1];
  taps.column[CONV_WIDTH - 2] = x;
  return CONV_SILU ? gd_silu(sum) : sum;
}

// The columns after `tokens` tokens: the last K - 1 of (old state, x[0 .. tokens)). `x` points at the channel's first
// token of the sequence.
template <typename T>
inline void conv_columns(thread ConvTaps& taps, thread const ConvTaps& old, device const T* x, uint stride,
                         int tokens) {
  int width = int(CONV_WIDTH) - 1;
  for (int j = 0; j < width; ++j) {
    int at = tokens - width + j;
    float column = 0.0f;
    if (at >= 0) {
      column = float(x[ulong(at) * stride]);
    } else {
      // A loop over fixed entries, not old.column[at + width]: the taps stay in registers.
      for (int m = 0; m < width; ++m) column = m == at + width ? old.column[m] : column;
    }
    taps.column[j] = column;
  }
}

#endif
