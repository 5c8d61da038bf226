// The common arguments of decode and prefill, and the addresses of a token's rows.
// recurrence_decode.metal describes each tensor and table.
#ifndef GATED_DELTA_SHADERS_RECURRENCE_H
#define GATED_DELTA_SHADERS_RECURRENCE_H

#include "states.h"

template <typename T, typename S> struct Recurrence {
  device const T* query;
  device const T* key;
  device const T* value;
  device T* out;
  device S* state;
  device const S* staged;
  device S* snapshots;
  device const int* readSlots;
  device const int* writeSlots;
  device const uint* storeOffsets;
  device const GDMStore* stores;
};

// RECORD.
struct Records {
  device float* key;
  device float* delta;
};

// The states of a sequence, with its extra stores.
template <typename T, typename S>
METAL_FUNC States<S> states_of(thread const Recurrence<T, S>& given, uint sequence, uint slotRows, uint keyDim) {
  States<S> states = {given.state, given.staged, given.snapshots, given.stores, 0, 0, slotRows, keyDim};
  if (HAS_STORES) {
    states.next = given.storeOffsets[sequence];
    states.end = given.storeOffsets[sequence + 1];
  }
  return states;
}

template <typename T, typename S>
METAL_FUNC device const T* query_of(thread const Recurrence<T, S>& given, constant GDMRecurrence& params, ulong token,
                                    uint keyHead) {
  return given.query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride);
}
template <typename T, typename S>
METAL_FUNC device const T* key_of(thread const Recurrence<T, S>& given, constant GDMRecurrence& params, ulong token,
                                  uint keyHead) {
  return given.key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride);
}
template <typename T, typename S>
METAL_FUNC device const T* value_of(thread const Recurrence<T, S>& given, constant GDMRecurrence& params, ulong token,
                                    uint valueHead) {
  return given.value + (token * params.valueTokenStride + ulong(valueHead) * params.valueHeadStride);
}
// Elements from the beginning of `out`, gates and betas.
METAL_FUNC ulong out_at(constant GDMRecurrence& params, ulong token, uint valueHead) {
  return token * params.outTokenStride + ulong(valueHead) * params.outHeadStride;
}
METAL_FUNC ulong gate_at(constant GDMRecurrence& params, ulong token, uint valueHead) {
  return token * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
}
METAL_FUNC ulong beta_at(constant GDMRecurrence& params, ulong token, uint valueHead) {
  return token * params.betaTokenStride + ulong(valueHead) * params.betaHeadStride;
}

#endif
