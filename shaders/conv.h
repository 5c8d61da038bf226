// Causal depthwise convolution, the parts that conv.metal and step.metal share: the state's layout and one output.
//
// state [slots, C, K - 1], oldest first, T or f32 (CONV_STATE_F32); weight [C, K]; bias [C]; any float dtype.
// y[t] = act(bias + sum over j of w[j] x[t - (K - 1) + j]), taps in ascending order by fma, columns before the
// sequence's first token coming from the state. (The short convolution of Mamba, Gu and Dao 2023, as Gated DeltaNet
// applies it to the joint query, key and value channels.)
//
// Columns are held as bits, since a state only moves them. Loops over taps run to the largest width and skip the taps
// beyond the actual width: an option as the bound would keep the arrays in memory.
#ifndef GATED_DELTA_SHADERS_CONV_H
#define GATED_DELTA_SHADERS_CONV_H

#include "storage.h"

// The K - 1 newest columns of one channel as the state stores them, oldest first; entries from K - 1 on are unused.
struct ConvTaps {
  uint column[GDM_CONV_MAX_TAPS];
};

struct ConvWeights {
  float tap[GDM_CONV_MAX_TAPS];  // of columns
  float last;                    // of the token itself
  float bias;
};

METAL_FUNC void conv_weights(thread ConvWeights& w, device const ushort* weight, device const ushort* bias,
                             uint channel) {
  ulong at = ulong(channel) * CONV_WIDTH;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    w.tap[j] = j + 1 < CONV_WIDTH ? read_any(weight, at + j, CONV_WEIGHT_DTYPE) : 0.0f;
  }
  w.last = read_any(weight, at + CONV_WIDTH - 1, CONV_WEIGHT_DTYPE);
  w.bias = CONV_BIAS ? read_any(bias, channel, CONV_BIAS_DTYPE) : 0.0f;
}

// Bits of one column: from and to the state's memory, as a number, and from an input.
template <typename T> METAL_FUNC uint conv_bits(device const T* p, ulong at) {
  if (CONV_STATE_F32) return ((device const uint*)p)[at];
  return uint(((device const typename Bits<T>::type*)p)[at]);
}
template <typename T> METAL_FUNC void conv_set_bits(device T* p, ulong at, uint bits) {
  typedef typename Bits<T>::type U;
  if (CONV_STATE_F32) ((device uint*)p)[at] = bits;
  else ((device U*)p)[at] = U(bits);
}
template <typename T> METAL_FUNC float conv_value(uint bits) {
  return CONV_STATE_F32 ? as_type<float>(bits) : Bits<T>::value(bits);
}
template <typename T> METAL_FUNC uint conv_column(T x) {
  uint bits = uint(as_type<typename Bits<T>::type>(x));
  return CONV_STATE_F32 ? as_type<uint>(Bits<T>::value(bits)) : bits;
}

// The state before the op: a slot of the pool or of the staged copies, or zeros.
template <typename T>
METAL_FUNC void conv_read(thread ConvTaps& taps, device const T* pool, device const T* staged, int slot, uint channels,
                          uint channel) {
  device const T* from = slot >= 0 ? pool : staged;
  ulong at = (ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * channels + channel) * (CONV_WIDTH - 1);
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    taps.column[j] = slot != GDM_SLOT_NONE && j + 1 < CONV_WIDTH ? conv_bits(from, at + j) : 0u;
  }
}

template <typename T>
METAL_FUNC void conv_write(device T* pool, thread const ConvTaps& taps, uint slot, uint channels, uint channel) {
  ulong at = (ulong(slot) * channels + channel) * (CONV_WIDTH - 1);
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    if (j + 1 < CONV_WIDTH) conv_set_bits(pool, at + j, taps.column[j]);
  }
}

METAL_FUNC void conv_move(thread ConvTaps& taps, uint column) {
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    uint next = j + 1 < GDM_CONV_MAX_TAPS ? taps.column[j + 1 < GDM_CONV_MAX_TAPS ? j + 1 : j] : 0u;
    taps.column[j] = j + 2 == CONV_WIDTH ? column : next;
  }
}

// One output, activated but not yet rounded; moves the taps on by `x`.
template <typename T> METAL_FUNC float conv_token(thread ConvTaps& taps, thread const ConvWeights& w, T x) {
  uint column = conv_column(x);
  float sum = w.bias;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    if (j + 1 < CONV_WIDTH) sum = fma(w.tap[j], conv_value<T>(taps.column[j]), sum);
  }
  sum = fma(w.last, conv_value<T>(column), sum);
  conv_move(taps, column);
  return CONV_SILU ? gd_silu(sum) : sum;
}

// The columns after `tokens` tokens: the last K - 1 of (old state, x[0 .. tokens)). `x` points at the channel's first
// token of the sequence.
template <typename T>
METAL_FUNC void conv_columns(thread ConvTaps& taps, thread const ConvTaps& old, device const T* x, uint stride,
                             int tokens) {
  int width = int(CONV_WIDTH) - 1;
  GDM_UNROLL for (int j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    int at = tokens - width + j;
    uint column = 0u;
    if (j < width && at >= 0) column = conv_column(x[ulong(at) * stride]);
    // A loop over fixed entries, not old.column[at + width]: the taps stay in registers.
    GDM_UNROLL for (int m = 0; m < GDM_CONV_MAX_TAPS; ++m) column = at < 0 && m == at + width ? old.column[m] : column;
    taps.column[j] = column;
  }
}

#endif
