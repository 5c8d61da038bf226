// Spans of keys, their weights, and the joining of two spans: shared by the attention kernels.
//
// A span's part of a row is its maximum m, the sum l of its weights exp(s - m), and v = sum of weights times values. Two spans,
// and so all of a row's spans, are joined by factors to a common maximum (Milakov and Gimelshein 2018):
//   m' = max(m, n);  l' = l exp(m - m') + k exp(n - m');  v' = v exp(m - m') + u exp(n - m')
// If all scores are -inf, exponents are relative to 0.
#ifndef GATED_DELTA_SHADERS_ATTENTION_SOFTMAX_H
#define GATED_DELTA_SHADERS_ATTENTION_SOFTMAX_H

#include "rows.h"

METAL_FUNC float largest(float a, float b) { return b > a ? b : a; }

// From each lane's maximum to that of all lanes. Every lane of the simdgroup must call it.
METAL_FUNC float largest_of_lanes(float m) {
  m = largest(m, simd_shuffle_xor(m, ushort(1)));
  m = largest(m, simd_shuffle_xor(m, ushort(2)));
  m = largest(m, simd_shuffle_xor(m, ushort(4)));
  m = largest(m, simd_shuffle_xor(m, ushort(8)));
  return largest(m, simd_shuffle_xor(m, ushort(16)));
}

METAL_FUNC float exponent_from(float most) { return most == -INFINITY ? 0.0f : most; }

// Maximum and sum of a part, and the factors that join two parts.
struct Part {
  float most;
  float sum;
};
struct Factors {
  float before;
  float here;
};
METAL_FUNC Factors join(thread Part& part, Part next) {
  float most = largest(part.most, next.most);
  float reference = exponent_from(most);
  Factors factors = {gd_exp_down(part.most - reference), gd_exp_down(next.most - reference)};
  part.sum = fma(part.sum, factors.before, next.sum * factors.here);
  part.most = most;
  return factors;
}
template <typename V> METAL_FUNC V joined(V values, V next, Factors factors) {
  return fma(values, V(factors.before), next * V(factors.here));
}

// Turns a span's scores in threadgroup memory, `apart` from one to the next, into weights; zeros from key `sees` on. Every lane
// of the simdgroup must call it.
METAL_FUNC Part weigh(threadgroup float* scores, uint apart, uint sees, uint lane) {
  constexpr uint each = GDM_ATTENTION_SPAN / GDM_SIMD_LANES;
  static_assert(each == 4, "a lane has four keys");
  threadgroup float* at = scores + lane * apart;
  float score[each];
  GDM_UNROLL for (uint j = 0; j < each; ++j) {
    score[j] = lane + j * GDM_SIMD_LANES < sees ? at[j * GDM_SIMD_LANES * apart] : -INFINITY;
  }
  Part part;
  part.most = largest_of_lanes(largest(largest(score[0], score[1]), largest(score[2], score[3])));
  float reference = exponent_from(part.most);
  GDM_UNROLL for (uint j = 0; j < each; ++j) {
    score[j] = gd_exp_down(score[j] - reference);
    at[j * GDM_SIMD_LANES * apart] = score[j];
  }
  part.sum = (score[0] + score[1]) + (score[2] + score[3]);
  part.sum += simd_shuffle_xor(part.sum, ushort(1));
  part.sum += simd_shuffle_xor(part.sum, ushort(2));
  part.sum += simd_shuffle_xor(part.sum, ushort(4));
  part.sum += simd_shuffle_xor(part.sum, ushort(8));
  part.sum += simd_shuffle_xor(part.sum, ushort(16));
  return part;
}

// The number of keys that a row of a task sees.
METAL_FUNC uint seen_of(GDMAttentionTask task, uint row, uint group) {
  return uint(task.past) + (uint(task.firstRow) + row) / group + 1;
}

#endif
